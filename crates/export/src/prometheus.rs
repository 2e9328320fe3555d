//! Families of metrics as Prometheus's text (exposition format 0.0.4).

use std::fmt::Write as _;

use spindoctor_page::safe::safe;

use super::metrics::{Family, Histogram, Kind, PROBE_BOUNDS_S, Point, Value};

/// What the answer is, for its head.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text.
pub fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, help, kind, points, .. } in families {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(
            text,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            help.replace('\\', "\\\\").replace('\n', "\\n")
        );
        for Point { labels, value } in points {
            match value {
                Value::Number(number) => {
                    let _ = writeln!(text, "{name}{} {number}", braced(labels, None));
                }
                Value::Histogram(histogram) => buckets(&mut text, name, labels, histogram),
            }
        }
    }
    text
}

fn buckets(text: &mut String, name: &str, labels: &[(&'static str, String)], histogram: &Histogram) {
    let mut below = 0;
    let bounds = PROBE_BOUNDS_S.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(histogram.counts) {
        below += count;
        let _ = writeln!(text, "{name}_bucket{} {below}", braced(labels, Some(&bound)));
    }
    let labels = braced(labels, None);
    let _ = writeln!(text, "{name}_sum{labels} {}\n{name}_count{labels} {below}", histogram.sum_s);
}

fn braced(labels: &[(&'static str, String)], bound: Option<&str>) -> String {
    // A page of it is shown in a terminal, too: curl prints it.
    let shown = |value: &str| value.split('\n').map(safe).collect::<Vec<_>>().join("\n");
    let escaped = |value: &str| shown(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let all: Vec<String> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use regex::Regex;

    use super::*;

    use crate::metrics::tests::all;

    #[test]
    fn every_line_is_as_the_format_has_it_and_every_series_stands_once() {
        let label = r#"[a-z_]+="(?:[^"\\\n]|\\["\\n])*""#;
        let line =
            Regex::new(&format!(r"^(spindoctor_[a-z_]+(?:\{{{label}(?:,{label})*\}})?) (-?[0-9.e+-]+)$"))
                .unwrap();
        let head = Regex::new(
            r"^# (?:HELP spindoctor_[a-z_]+ [^\n]+|TYPE spindoctor_[a-z_]+ (?:counter|gauge|histogram))$",
        )
        .unwrap();
        let families = all();
        let text = render(&families);
        let mut series = HashSet::new();
        for each in text.lines() {
            if each.starts_with('#') {
                assert!(head.is_match(each), "{each}");
                continue;
            }
            let found = line.captures(each).unwrap_or_else(|| panic!("{each}"));
            assert!(found[2].parse::<f64>().is_ok(), "{each}");
            assert!(series.insert(found[1].to_owned()), "{each}");
        }
        let lines_of = |point: &Point| match point.value {
            Value::Number(_) => 1,
            // A bucket for each bound and one beyond them, the sum, the count.
            Value::Histogram(_) => PROBE_BOUNDS_S.len() + 3,
        };
        let words: usize = families.iter().flat_map(|family| &family.points).map(lines_of).sum();
        assert!(text.ends_with('\n') && series.len() == words, "{text}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_made_visible() {
        let labels = [("hostname", "db\u{1b}[2J17\u{9b}".to_owned())];
        assert_eq!(braced(&labels, None), r#"{hostname="db\\u{1b}[2J17\\u{9b}"}"#);
    }

    #[test]
    fn buckets_are_cumulative_and_labels_are_escaped() {
        let text = render(&all());
        for line in [
            "spindoctor_probe_seconds_bucket{le=\"0.0002\"} 1",
            "spindoctor_probe_seconds_bucket{le=\"0.0005\"} 3",
            "spindoctor_probe_seconds_bucket{le=\"+Inf\"} 5",
            "spindoctor_probe_seconds_count 5",
            "spindoctor_events_total{kind=\"commits_stopped\",cause=\"metadata-lock-pileup\"} 2",
            "spindoctor_stalls_total{kind=\"commits_stopped\"} 2",
            "spindoctor_stalls_total{kind=\"deadlock\"} 0",
        ] {
            assert!(text.lines().any(|each| each == line), "{line} is missing in {text}");
        }
        assert!(text.contains(r#"hostname="db\"17\\\n""#), "{text}");
    }
}
