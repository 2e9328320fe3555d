//! The formats of a profile. Each is a function from a finished [`View`] to bytes; none reads anything or knows
//! the others. The one list of them, [`FORMATS`], drives the command line, its help and its messages.

use spindoctor_model::Profile;

use super::view::{Choice, View};
use super::{annotated, diff, dot, firefox, folded, gdb, html, json, pprof, speedscope, svg, text};
use spindoctor_page::formats;
use spindoctor_page::text::Look;

/// A way to write a profile.
pub type Format = formats::Format<fn(&View<'_>, Look) -> anyhow::Result<Vec<u8>>>;

/// Every format, in the order in which help names them; the first is what a terminal gets.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "a report for the terminal: states, spin share, top frames, a tree",
        extension: "txt",
        binary: false,
        render: |view, look| Ok(text::render(view, look).into_bytes()),
    },
    Format {
        name: "folded",
        help: "one stack a line and its count, for flamegraph.pl and its kin",
        extension: "folded",
        binary: false,
        render: |view, _| Ok(folded::render(view).into_bytes()),
    },
    Format {
        name: "svg",
        help: "a flame graph: open it in a browser, click to zoom, search",
        extension: "svg",
        binary: false,
        render: |view, _| Ok(svg::render(view).into_bytes()),
    },
    Format {
        name: "pprof",
        help: "for `go tool pprof`, Pyroscope, Parca and speedscope",
        extension: "pb.gz",
        binary: true,
        render: |view, _| pprof::render(view),
    },
    Format {
        name: "speedscope",
        help: "for https://www.speedscope.app",
        extension: "speedscope.json",
        binary: false,
        render: |view, _| speedscope::render(view),
    },
    Format {
        name: "firefox",
        help: "for https://profiler.firefox.com: a track for each thread, over time",
        extension: "firefox.json",
        binary: false,
        render: |view, _| firefox::render(view),
    },
    Format {
        name: "dot",
        help: "the call graph with its weights, for graphviz",
        extension: "dot",
        binary: false,
        render: |view, _| Ok(dot::render(view).into_bytes()),
    },
    Format {
        name: "gdb",
        help: "every snapshot as gdb's `thread apply all bt` prints it",
        extension: "gdb",
        binary: false,
        render: |view, _| Ok(gdb::render(view).into_bytes()),
    },
    Format {
        name: "annotate",
        help: "the hottest function's instructions with the CPU samples at each",
        extension: "asm",
        binary: false,
        render: |view, look| Ok(annotated::text(view, look).into_bytes()),
    },
    Format {
        name: "html",
        help: "a page: flame graph, states, spin share, top frames, the hottest function's instructions",
        extension: "html",
        binary: false,
        render: |view, _| Ok(html::render(view).into_bytes()),
    },
    Format {
        name: "json",
        help: "schema spindoctor.profile/1",
        extension: "json",
        binary: false,
        render: |view, _| Ok(json::render(view)?.into_bytes()),
    },
];

/// The profile as one HTML page.
pub fn page(view: &View<'_>) -> String {
    html::render(view)
}

/// A flame graph of a profile to stand within an HTML page, as markup: of what runs on CPUs, or of what every thread
/// does. None where the profile has nothing of that.
pub fn flame_graph(profile: &Profile, on_cpu: bool) -> Option<String> {
    let view = View::new(profile, &Choice { on_cpu, ..Choice::default() }).ok()?;
    (!view.observations.is_empty()).then(|| svg::within_page(&view))
}

/// A flame graph of one profile in the colours of what changed since another, to stand within an HTML page: threads that
/// idle in both are left out. None where nothing was seen in the later one.
pub fn difference_graph(before: &Profile, after: &Profile) -> Option<String> {
    let (before, after) =
        (View::new(before, &Choice::default()).ok()?, View::new(after, &Choice::default()).ok()?);
    let (before, after) = (busy_or_all(before), busy_or_all(after));
    (!after.observations.is_empty()).then(|| diff::within_page(&before, &after))
}

/// Without the threads that waited for work. Idle threads alone are better than an empty picture.
fn busy_or_all(view: View<'_>) -> View<'_> {
    let (busy, _) = view.split_idle();
    if busy.observations.is_empty() { view } else { busy }
}

/// Whom the profile is of: what the server says it is, or the process's name.
pub fn subject(profile: &Profile) -> &str {
    match profile.process.server.as_str() {
        "" => &profile.process.name,
        server => server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{examples, view as stacks_view};

    #[test]
    fn every_format_has_its_own_name_and_ending() {
        for format in FORMATS {
            assert_eq!(formats::by_name(FORMATS, format.name).map(|found| found.name), Some(format.name));
            let file = format!("stacks.{}", format.extension);
            assert_eq!(formats::by_extension(FORMATS, &file).map(|found| found.name), Some(format.name));
            assert!(!format.help.is_empty());
        }
        assert!(
            formats::by_extension(FORMATS, "svg").is_none()
                && formats::by_extension(FORMATS, "x.tar").is_none()
        );
    }

    #[test]
    fn hostile_names_steer_nothing_in_any_format() {
        let profile = examples::hostile();
        for choice in [Choice::default(), Choice { by: stacks_view::By::User, ..Choice::default() }] {
            let view = View::new(&profile, &choice).unwrap();
            for format in FORMATS.iter().filter(|format| !format.binary) {
                let bytes = (format.render)(&view, Look { width: 80, colour: false }).unwrap();
                let text = String::from_utf8(bytes).unwrap();
                let steering: Vec<char> = text
                    .chars()
                    .filter(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{2028}'))
                    .collect();
                assert!(steering.is_empty(), "{}: {steering:?}", format.name);
            }
        }
    }

    #[test]
    fn a_difference_within_a_page_runs_nothing_and_needs_something_to_show() {
        let svg = difference_graph(&examples::calmer(), &examples::hostile()).unwrap();
        assert!(svg.starts_with("<svg ") && !svg.contains("<script") && !svg.contains(" id="), "{svg}");
        assert_eq!(difference_graph(&examples::busy(), &Profile::default()), None);
    }

    #[test]
    fn a_flame_graph_within_a_page_runs_nothing_and_styles_nothing_else() {
        for profile in [examples::busy(), examples::hostile()] {
            let svg = flame_graph(&profile, false).unwrap();
            assert!(svg.starts_with("<svg ") && !svg.contains("<script") && !svg.contains(" id="), "{svg}");
            let style = svg.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
            let selectors = style.replace("@media (prefers-color-scheme:dark){", "");
            for rule in selectors.split('}').filter(|rule| !rule.is_empty()) {
                assert!(rule.starts_with(".flame ") || rule.starts_with("#boxes "), "{rule}");
            }
        }
        assert!(flame_graph(&examples::busy(), true).unwrap().contains("spinning 25 %"));
        assert_eq!(flame_graph(&Profile::default(), false), None);
    }

    /// Every number of a profile, each in turn, as no profiler would write it.
    #[test]
    fn a_profile_with_any_number_is_refused_or_written_in_every_format() {
        fn numbers(json: &serde_json::Value, path: &str, found: &mut Vec<String>) {
            match json {
                serde_json::Value::Number(_) => found.push(path.to_owned()),
                // One of each kind is like all others.
                serde_json::Value::Array(list) => {
                    list.iter()
                        .take(2)
                        .enumerate()
                        .for_each(|(at, item)| numbers(item, &format!("{path}/{at}"), found));
                }
                serde_json::Value::Object(map) => {
                    map.iter().for_each(|(key, item)| numbers(item, &format!("{path}/{key}"), found));
                }
                _ => {}
            }
        }
        let whole = serde_json::to_value(examples::busy()).unwrap();
        let mut found = Vec::new();
        numbers(&whole, "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        for path in found {
            for number in ["0", "-1", "1e300", "18446744073709551615", "4294967295", "1e-300"] {
                let mut spoilt = whole.clone();
                *spoilt.pointer_mut(&path).unwrap() = serde_json::from_str(number).unwrap();
                let Ok(profile) = spindoctor_stacks::file::from_json(spoilt.to_string().as_bytes()) else {
                    continue;
                };
                for on_cpu in [false, true] {
                    let Ok(view) = View::new(&profile, &Choice { on_cpu, ..Choice::default() }) else {
                        continue;
                    };
                    for format in FORMATS {
                        (format.render)(&view, Look { width: 80, colour: false }).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn a_profile_without_any_observation_can_be_written_in_every_format() {
        let profile = Profile::default();
        let view = View::new(&profile, &Choice::default()).unwrap();
        for format in FORMATS {
            let bytes = (format.render)(&view, Look { width: 80, colour: false }).unwrap();
            let folded_is_empty = format.name == "folded" || format.name == "gdb";
            assert!(folded_is_empty || !bytes.is_empty(), "{}", format.name);
        }
    }
}
