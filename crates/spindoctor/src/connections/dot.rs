//! The accepting thread's busy time for graphviz: `dot -Tsvg`. The thread, the parts of its work, and what each part
//! consists of; the wider an arrow, the more of the time goes there.

use std::fmt::Write as _;

use spindoctor_model::connections::{AcceptPart, AcceptTime};

use super::view::Connections;
use spindoctor_page::dot;
use spindoctor_page::number;
use spindoctor_page::number::percent;

/// Columns of a line in a box.
const LINE_SHOWN: usize = 48;
/// What weighs less than this is left out, and counted in its part.
const LEAST_SHARE: f64 = 0.005;

/// The graph as graphviz reads it.
pub fn render(look: &Connections) -> String {
    let mut text = String::from("digraph \"connections\" {\n");
    let mut line = |line: &str| {
        let _ = writeln!(text, "  {line}");
    };
    line(&format!("label=\"{}\"; labelloc=t; rankdir=LR; fontname=\"Helvetica\";", title(look)));
    line(
        "node [shape=box, style=\"filled,rounded\", fillcolor=\"#f4f4f2\", color=\"#777777\", fontname=\"Helvetica\"];",
    );
    line("edge [fontname=\"Helvetica\", fontsize=9, color=\"#777777\"];");
    match &look.accept {
        Ok(accept) => {
            line(&format!("thread [label=\"accepting thread\\n{}\", fillcolor=\"#f9d5cf\"];", label(accept)));
            for (place, (part, share)) in accept.parts().into_iter().enumerate() {
                line(&format!(
                    "part{place} [label=\"{}\\n{}\", fillcolor=\"{}\"];",
                    part.title(),
                    percent(share),
                    fill(part)
                ));
                line(&arrow("thread", &format!("part{place}"), share));
                let rows = accept.rows.iter().enumerate().filter(|(_, row)| row.part == part);
                for (at, row) in rows.filter(|(_, row)| row.share >= LEAST_SHARE) {
                    let calls = row.calls.map(|calls| {
                        let each = row.ms / 1e3 / calls.max(1) as f64;
                        format!(
                            "\\n{} of {}",
                            number::counted(calls, "call", "calls"),
                            number::duration(each)
                        )
                    });
                    let name = dot::short_text(&row.name, LINE_SHOWN);
                    let share = percent(row.share);
                    line(&format!("row{at} [label=\"{name}\\n{share}{}\"];", calls.unwrap_or_default()));
                    line(&arrow(&format!("part{place}"), &format!("row{at}"), row.share));
                }
            }
        }
        Err(why) => {
            line(&format!("thread [label=\"not known: {}\"];", dot::short_text(&why.because, LINE_SHOWN)));
        }
    }
    text.push_str("}\n");
    text
}

fn title(look: &Connections) -> String {
    let made = look.made_per_s.map(|made| format!(": {} connections a second", number::plain(made.round())));
    format!("{}{}", dot::short_text(&look.server, LINE_SHOWN), made.unwrap_or_default())
}

fn label(accept: &AcceptTime) -> String {
    let each = accept.us_each.map(|us| format!("\\n{} for each connection", number::duration(us / 1e6)));
    format!("busy {} of the time{}", percent(accept.busy_ratio), each.unwrap_or_default())
}

fn arrow(from: &str, to: &str, share: f64) -> String {
    let width = 1.0 + 7.0 * share.clamp(0.0, 1.0);
    format!("{from} -> {to} [label=\" {}\", penwidth={width:.1}];", percent(share))
}

/// The kernel in green, waiting in red, what is not known in grey.
fn fill(part: AcceptPart) -> &'static str {
    match part {
        AcceptPart::SystemCall => "#d6ecde",
        AcceptPart::Mutex => "#f9d5cf",
        AcceptPart::Unknown => "#e4e4e4",
        AcceptPart::HandOver
        | AcceptPart::ThreadCreation
        | AcceptPart::Allocation
        | AcceptPart::SessionSetUp
        | AcceptPart::Loop => "#faf0d8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::connections::view::sample;

    #[test]
    fn the_threads_time_is_a_graph_with_shares() {
        insta::assert_snapshot!(render(&sample::busy()));
    }

    #[test]
    fn no_text_leaves_its_quotes() {
        for look in [sample::busy(), sample::remote(), sample::hostile()] {
            for line in render(&look).lines() {
                let unescaped = line.replace("\\\\", "").replace("\\\"", "");
                assert_eq!(unescaped.matches('"').count() % 2, 0, "{line}");
            }
        }
    }

    /// Where graphviz is installed, it is the judge.
    #[test]
    fn graphviz_reads_every_graph() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        for look in [sample::busy(), sample::remote(), sample::hostile()] {
            let dot = Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
            let Ok(mut dot) = dot else { return };
            dot.stdin.take().unwrap().write_all(render(&look).as_bytes()).unwrap();
            assert!(dot.wait().unwrap().success());
        }
    }
}
