// Renders the templates of a chart as helm does: render CHART VALUES RELEASE.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(path string, into interface{}) {
	bytes, err := os.ReadFile(path)
	check(err)
	check(yaml.Unmarshal(bytes, into))
}

func merge(into, from map[string]interface{}) {
	for name, value := range from {
		inner, isMap := value.(map[string]interface{})
		outer, hasMap := into[name].(map[string]interface{})
		if isMap && hasMap {
			merge(outer, inner)
		} else {
			into[name] = value
		}
	}
}

func main() {
	chart, release := os.Args[1], os.Args[3]
	values, given, about := map[string]interface{}{}, map[string]interface{}{}, map[string]interface{}{}
	read(filepath.Join(chart, "values.yaml"), &values)
	read(os.Args[2], &given)
	read(filepath.Join(chart, "Chart.yaml"), &about)
	merge(values, given)
	templates := template.New("chart").Option("missingkey=zero").Funcs(sprig.TxtFuncMap())
	templates.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := templates.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"required": func(text string, value interface{}) (interface{}, error) {
			if value == nil || value == "" {
				return nil, fmt.Errorf("%s", text)
			}
			return value, nil
		},
		"toYaml": func(value interface{}) (string, error) {
			out, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(out), "\n"), err
		},
	})
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	_, err = templates.ParseFiles(files...)
	check(err)
	data := map[string]interface{}{
		"Values":  values,
		"Chart":   map[string]interface{}{"AppVersion": about["appVersion"]},
		"Release": map[string]interface{}{"Name": release, "Namespace": "default"},
	}
	for _, file := range files {
		if name := filepath.Base(file); strings.HasSuffix(name, ".yaml") {
			fmt.Println("---")
			check(templates.ExecuteTemplate(os.Stdout, name, data))
		}
	}
}
