// Uses the types that a generator made from the description of the API. Arguments: the URL of the server,
// a key of a project, the instance key.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [host, key, instanceKey] = process.argv.slice(2) as [string, string, string];

function expect(holds: boolean, what: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(what));
}

const api = createClient<paths>({ baseUrl: `${host}/api/v3`, headers: { "X-Api-Key": key } });
const made = await api.POST("/checks/", { body: { name: "weekly", timeout: 604800, grace: 3600 } });
expect(made.data !== undefined, made.error);
expect(made.data.status === "new" && made.data.timeout === 604800, made.data);
await fetch(made.data.ping_url);
const path = { uuid: made.data.uuid };
const shown = await api.GET("/checks/{uuid}", { params: { path } });
expect(shown.data?.n_pings === 1 && shown.data.status === "up", shown);
const pings = await api.GET("/checks/{uuid}/pings/", { params: { path } });
expect(pings.data?.pings.length === 1, pings);
const refused = await api.POST("/checks/", { body: { name: "x".repeat(101) } });
expect(refused.response.status === 400 && refused.error !== undefined, refused);
const removed = await api.DELETE("/checks/{uuid}", { params: { path } });
expect(removed.data?.name === "weekly", removed);

const instance = createClient<paths>({ baseUrl: `${host}/api/overdue/v1`, headers: { "X-Api-Key": instanceKey } });
const project = await instance.POST("/projects", { body: { name: "from-typescript", check_limit: 5 } });
expect(project.data !== undefined, project.error);
const projects = await instance.GET("/projects");
expect(projects.data?.some((found) => found.name === "from-typescript" && found.check_limit === 5) === true, projects);
await instance.DELETE("/projects/{project}", { params: { path: { project: "from-typescript" } } });
