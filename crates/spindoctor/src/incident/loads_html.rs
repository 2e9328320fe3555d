//! Sessions at work over time, on the page: bars of what they did, stacked by class, with the CPUs that there are, and a table
//! of statements by class.

use std::fmt::Write as _;

use maud::{Markup, html};
use spindoctor_model::{KnownBy, TimeClass, TimeShare};
use spindoctor_sessions::{Bar, Load, Statement};

use super::picture::{Mark, Marks, STRETCHED, share, ticks, times};
use super::view::Incident;
use crate::common::load::{Layer, SHOWN, averages, in_layer, layers, sessions, stands_on};
use spindoctor_page::html::breakable;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_record::span::Span;

/// The plot's own units: it is stretched to the room there is.
const WIDTH: f64 = STRETCHED;
const HEIGHT: f64 = 200.0;
/// Room above the highest bar, in which the events are seen.
const ABOVE: f64 = 16.0;
/// The line of the CPUs is drawn where it is no higher than this many times what else there is: else nothing else was seen.
const MOST_ABOVE: f64 = 3.0;
/// A line goes on over so many seconds in which nobody read how much CPU the server used.
const JOINED_S: f64 = 2.5;
/// Statements that are listed.
const STATEMENTS: usize = 10;
/// Classes that have a column.
const COLUMNS: usize = 4;

/// The section; nothing where sessions were never listed.
pub fn section(incident: &Incident) -> Markup {
    let load = &incident.loads.shown;
    let layers = layers(load, SHOWN);
    let has_picture = load.bars().len() > 1 && !layers.is_empty();
    html! {
        @if has_picture {
            section.card.timeline.load {
                h2 { "Sessions at work" }
                (plot(incident, load, &layers))
                (table(incident))
                p.quiet {
                    (safe(&stands_on(load)))
                    @if layers.iter().any(|layer| layer.class == Some(TimeClass::Running)) && is_split(incident) {
                        " What of it ran in the stall, and what waited, is below: by stacks and the kernel's clocks."
                    }
                }
            }
        }
    }
}

/// True where the account of the stall distinguishes what a list calls running.
fn is_split(incident: &Incident) -> bool {
    let time = incident.time.during.as_ref();
    let is_known = |one: &TimeShare| matches!(one.known_by, KnownBy::Stack | KnownBy::Counter);
    time.is_some_and(|time| time.classes.iter().any(is_known))
}

/// How a quantity becomes a height.
struct Scale {
    ceiling: f64,
}

impl Scale {
    /// Room for the highest bar, and for the CPUs where they are not far above it.
    fn from_load(load: &Load) -> Self {
        let highest = load.bars().iter().map(|bar| bar.all_sessions().max(bar.cpus_used().unwrap_or(0.0)));
        let highest = highest.fold(0.0, f64::max);
        let granted = load.cpus_granted().filter(|granted| *granted <= MOST_ABOVE * highest);
        Self { ceiling: highest.max(granted.unwrap_or(0.0)).max(0.1) }
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - value / self.ceiling * (HEIGHT - ABOVE)
    }
}

fn plot(incident: &Incident, load: &Load, layers: &[Layer]) -> Markup {
    let shown = incident.timeline.shown;
    let scale = Scale::from_load(load);
    let granted = load.cpus_granted().filter(|granted| *granted <= scale.ceiling);
    let used = used_line(load, shown, &scale);
    let marks = Marks::from_incident(incident);
    let ticks = ticks(shown);
    html! {
        p.key.layers {
            @for layer in layers.iter().rev() {
                span { span.swatch style=(format!("background:{}", layer.hex())) {} (layer.label()) }
            }
            @if !used.is_empty() { span { span.swatch.used {} "CPUs used" } }
            @if let Some(granted) = load.cpus_granted() {
                span {
                    @if granted <= scale.ceiling { span.swatch.granted {} }
                    (number::quantity(granted, "CPUs")) " granted"
                    @if granted > scale.ceiling { ", above the picture" }
                }
            }
        }
        figure.track {
            div.plot {
                svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                    aria-label=(format!("sessions at work by class: {}", averages(load))) {
                    @for mark in marks.all() { (mark.rect(HEIGHT)) }
                    @for (share, _) in &ticks {
                        @let at = format!("{:.1}", share * WIDTH);
                        line.grid x1=(at) x2=(at) y1="0" y2=(HEIGHT) {}
                    }
                    @for (layer, path) in layers.iter().zip(paths(load, layers, shown, &scale)) {
                        path.layer d=(path) fill=(layer.hex()) { title { (layer.label()) } }
                    }
                    // The bars cover the events: where these begin and end is marked over them.
                    @for at in marks.events().flat_map(Mark::ends) {
                        @let x = format!("{:.1}", at * WIDTH / 100.0);
                        line.edge x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                    }
                    line.axis x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                    @for line in &used { polyline.used points=(line) {} }
                    @if let Some(granted) = granted {
                        @let y = format!("{:.1}", scale.y(granted));
                        line.granted x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                    }
                }
                span.most { (sessions(scale.ceiling)) }
                span.least { "0" }
            }
        }
        (times(&ticks))
    }
}

/// From where to where a bar is, in the plot's units; none where it lies outside.
fn edges(bar: &Bar, shown: Span) -> Option<(f64, f64)> {
    let place = |at| (share(shown, at) * WIDTH).clamp(0.0, WIDTH);
    let (left, right) = (place(bar.from), place(bar.to));
    (right > left).then_some((left, right))
}

/// The bars of each layer as one path: a layer stands on those before it.
fn paths(load: &Load, layers: &[Layer], shown: Span, scale: &Scale) -> Vec<String> {
    let mut paths = vec![String::new(); layers.len()];
    for bar in load.bars() {
        let Some((left, right)) = edges(bar, shown) else { continue };
        let mut below = 0.0;
        for (layer, path) in layers.iter().zip(&mut paths) {
            let height = in_layer(layers, layer, |class| bar.sessions(class), bar.all_sessions());
            if height > 0.0 {
                let (foot, top) = (scale.y(below), scale.y(below + height));
                let _ = write!(path, "M{left:.1} {foot:.1}V{top:.1}H{right:.1}V{foot:.1}Z");
            }
            below += height;
        }
    }
    paths
}

/// The CPUs that the server used, as steps; a line for each stretch without a gap.
fn used_line(load: &Load, shown: Span, scale: &Scale) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut before: Option<&Bar> = None;
    for bar in load.bars() {
        // Looks between the samples of a stall do not read it.
        let (Some((left, right)), Some(used)) = (edges(bar, shown), bar.cpus_used()) else { continue };
        if !before.is_some_and(|before| before.is_near(bar, JOINED_S)) {
            lines.push(String::new());
        }
        before = Some(bar);
        if let Some(line) = lines.last_mut() {
            let y = scale.y(used);
            let _ = write!(line, "{left:.1},{y:.1} {right:.1},{y:.1} ");
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn table(incident: &Incident) -> Markup {
    let (load, when) = incident.loads.table();
    let layers: Vec<Layer> = columns(load);
    let statements = load.statements();
    html! {
        @if !statements.is_empty() && !layers.is_empty() {
            h3 { "By statement and class, " (when) }
            table.wide.loads {
                thead {
                    tr { th { "statement" } th { "sessions" } @for layer in &layers { th { (layer.label()) } } }
                }
                tbody {
                    @for statement in statements.iter().take(STATEMENTS) {
                        tr {
                            td { (name(statement)) }
                            td.number.value data-label="sessions " { (sessions(load.sessions_of(statement))) }
                            @for layer in &layers {
                                @let text = sessions(in_layer(&layers, layer, |class| load.sessions_in(statement, class), load.sessions_of(statement)));
                                // On a telephone a cell is a line: one that says nothing is left out.
                                @if text.is_empty() { td.number.empty {} }
                                @else { td.number data-label=(format!("{} ", layer.label())) { (text) } }
                            }
                        }
                    }
                }
            }
            @if statements.len() > STATEMENTS {
                p.quiet { (number::counted((statements.len() - STATEMENTS) as u64, "other statement", "other statements")) " had less." }
            }
            p.quiet { "Sessions at work, " (when) ": " (averages(load)) @if incident.loads.before.lists() > 0 { "; " (format!("{:.1}", incident.loads.before.sessions())) " before" } "." }
        }
    }
}

/// The layers that have a column of the table: the largest first.
pub fn columns(load: &Load) -> Vec<Layer> {
    let mut columns = layers(load, COLUMNS);
    columns.sort_by(|a, b| a.class.is_none().cmp(&b.class.is_none()).then(b.sessions.total_cmp(&a.sessions)));
    columns
}

fn name(statement: &Statement) -> Markup {
    html! {
        @if statement.text.is_empty() { span.quiet { "no statement is shown" } }
        @else { code { (breakable(&statement.text)) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident::examples;

    #[test]
    fn bars_stand_on_each_other_and_never_leave_the_plot() {
        let incident = examples::pileup();
        let load = &incident.loads.shown;
        let layers = layers(load, SHOWN);
        let scale = Scale::from_load(load);
        let paths = paths(load, &layers, incident.timeline.shown, &scale);
        assert_eq!(paths.len(), layers.len());
        let numbers = |path: &str| -> Vec<f64> {
            path.split(['M', 'V', 'H', 'Z', ' ']).filter_map(|number| number.parse().ok()).collect()
        };
        for path in &paths {
            assert!(numbers(path).iter().all(|number| (0.0..=WIDTH).contains(number)), "{path}");
        }
        // The highest of all ends below the upper edge: the sum of the layers.
        let top = paths.iter().flat_map(|path| numbers(path)).fold(HEIGHT, f64::min);
        assert!(top >= 0.0, "{top}");
        let page = section(&incident).into_string();
        for part in
            ["metadata lock", "running", "2 CPUs granted", "CPUs used", "By statement and class, during"]
        {
            assert!(page.contains(part), "{part} is missing in {page}");
        }
    }

    #[test]
    fn cpus_far_above_the_load_do_not_flatten_it() {
        let load = crate::common::load::examples::pileup();
        assert_eq!(Scale::from_load(&load).ceiling, 12.0);
        let incident = examples::calm();
        let page = section(&incident).into_string();
        assert!(page.contains("Sessions at work"), "{page}");
    }
}
