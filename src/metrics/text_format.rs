//! Converts the format that the library writes (OpenMetrics 1.0) to the older text format 0.0.4,
//! which every scraper and `promtool` reads. There the description of a counter has the `_total` in
//! its name, too.

/// Returns the same metrics in the older format.
pub(super) fn to_text_format(open: &str) -> String {
    let mut out = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|typed| typed.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, help)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", help, "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_described_by_their_whole_name() {
        let open = "# HELP a_b Some of it.\n# TYPE a_b counter\na_b_total{x=\"# y\"} 1\n# HELP \
                    c_s Time.\n# TYPE c_s gauge\n# UNIT c_s s\nc_s 2\n# HELP d What.\n# TYPE d \
                    info\nd_info{v=\"1\"} 1\n# EOF\n";
        let wanted = "# HELP a_b_total Some of it.\n# TYPE a_b_total counter\na_b_total{x=\"# \
                      y\"} 1\n# HELP c_s Time.\n# TYPE c_s gauge\nc_s 2\n# HELP d_info What.\n# \
                      TYPE d_info gauge\nd_info{v=\"1\"} 1\n";
        assert_eq!(to_text_format(open), wanted);
    }
}
