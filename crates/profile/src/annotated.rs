//! The instructions of the hottest function with the CPU samples at each, as `perf annotate` has it: as text, and as a
//! section of a page.
//!
//! In: a view with CPU samples, and the code that its profile keeps. Out: instructions around the samples; branch targets
//! are marked, and PAUSE instructions. A sample names the instruction that the CPU was at: of one that takes long, often
//! the one behind it.

use std::collections::{BTreeSet, HashMap};

use anstyle::AnsiColor;
use maud::{Markup, html};
use spindoctor_model::stack::{Code, Observation};
use spindoctor_stacks::disassembly::{Line, disassemble};
use spindoctor_stacks::spin::Architecture;

use super::formats::subject;
use super::view::View;
use spindoctor_page::html::breakable;
use spindoctor_page::number::{self, percent};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, Page, QUIET, STRONG};

/// Instructions that are shown before and behind one with samples.
const AROUND: usize = 6;
/// Instructions below this share of the function's samples do not count for what is shown.
const LEAST_SHARE: f64 = 0.002;
/// From this share on an instruction is accented; from `perf annotate`'s colours (5 %).
const HOT: f64 = 0.05;

/// The hottest function, instruction by instruction.
struct Annotated<'a> {
    name: String,
    module: &'a str,
    address: u64,
    /// CPU samples in it, and in all.
    samples: u64,
    all: u64,
    rows: Vec<Row>,
}

/// A line of it.
enum Row {
    Instruction {
        line: Line,
        samples: u64,
        /// True where a branch of the function leads here.
        is_target: bool,
    },
    /// Instructions without samples that are left out.
    Gap(usize),
}

/// Why there is nothing to annotate.
#[derive(Debug, thiserror::Error)]
pub enum NothingToAnnotate {
    /// No CPU sample.
    #[error("this profile has no CPU samples; take one with --cpu")]
    NoSamples,
    /// No code.
    #[error(
        "this profile has no machine code: it is older than 2026-11-26, the program has no table that says where its \
         functions end, or no sample lies in the program itself"
    )]
    NoCode,
}

fn samples<'a>(view: &'a View<'_>) -> &'a [Observation] {
    if view.on_cpu { &view.observations } else { view.profile.samples() }
}

fn annotated<'a>(view: &View<'a>) -> Result<Annotated<'a>, NothingToAnnotate> {
    let profile = view.profile;
    let samples = samples(view);
    if samples.is_empty() {
        return Err(NothingToAnnotate::NoSamples);
    }
    let mut counts: HashMap<(u32, u64), (u64, u32)> = HashMap::new();
    for sample in samples {
        let frames = &profile.stacks[sample.stack as usize].frames;
        if let Some(&leaf) = frames.first()
            && let frame = &profile.frames[leaf as usize]
            && let Some(module) = frame.module.filter(|_| !frame.kernel)
        {
            // The function itself is the outermost of the frames at this address: those before it are inlined.
            let same = |at: &&u32| profile.frames[**at as usize].address == frame.address;
            let own = *frames.iter().take_while(same).last().unwrap_or(&leaf);
            let (count, named_by) = counts.entry((module, frame.address)).or_insert((0, own));
            *count += 1;
            *named_by = own;
        }
    }
    let in_code = |code: &Code| -> Vec<(u64, u64, u32)> {
        let range = code.address..code.address.saturating_add(code.size() as u64);
        let within = |((module, address), (count, own)): (&(u32, u64), &(u64, u32))| {
            (*module == code.module && range.contains(address)).then_some((*address, *count, *own))
        };
        counts.iter().filter_map(within).collect()
    };
    let sum = |found: &[(u64, u64, u32)]| found.iter().map(|(_, count, _)| count).sum::<u64>();
    let hottest = profile
        .code
        .iter()
        .map(|code| (code, in_code(code)))
        .filter(|(_, found)| !found.is_empty())
        .max_by_key(|(code, found)| (sum(found), std::cmp::Reverse(code.address)));
    let (code, found) = hottest.ok_or(NothingToAnnotate::NoCode)?;
    let named = found.iter().max_by_key(|(address, count, _)| (*count, *address));
    let name = named.map_or("", |(_, _, own)| view.name(&profile.frames[*own as usize]));
    let total = sum(&found);
    let by_address: HashMap<u64, u64> = found.iter().map(|(address, count, _)| (*address, *count)).collect();
    Ok(Annotated {
        name: name.to_owned(),
        module: profile.modules.get(code.module as usize).map_or("", |module| module.path.as_str()),
        address: code.address,
        samples: total,
        all: samples.len() as u64,
        rows: rows(code, &by_address, total),
    })
}

/// The instructions around those with samples, and gaps between them.
fn rows(code: &Code, samples: &HashMap<u64, u64>, total: u64) -> Vec<Row> {
    let architecture = match code.architecture.as_str() {
        "aarch64" => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    let lines = disassemble(architecture, code.address, &code.bytes());
    let targets: BTreeSet<u64> = lines.iter().filter_map(|line| line.target).collect();
    let count = |line: &Line| samples.get(&line.address).copied().unwrap_or(0);
    let least = (total as f64 * LEAST_SHARE).ceil() as u64;
    let mut shown = vec![false; lines.len()];
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| count(line) >= least.max(1)) {
        let end = (at + AROUND + 1).min(lines.len());
        shown[at.saturating_sub(AROUND)..end].fill(true);
    }
    let mut rows = Vec::new();
    let mut left_out = 0;
    for (line, is_shown) in lines.into_iter().zip(shown) {
        if !is_shown {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            rows.push(Row::Gap(left_out));
            left_out = 0;
        }
        let (samples, is_target) = (count(&line), targets.contains(&line.address));
        rows.push(Row::Instruction { line, samples, is_target });
    }
    if left_out > 0 {
        rows.push(Row::Gap(left_out));
    }
    rows
}

impl Annotated<'_> {
    fn title(&self) -> String {
        let name = if self.name.is_empty() { "a function without a name" } else { &self.name };
        format!("{}: {} of the CPU samples", safe(name), percent(self.samples as f64 / self.all as f64))
    }

    fn facts(&self, view: &View<'_>) -> String {
        format!(
            "{} of {} in {} at {:#x}; {}",
            self.samples,
            number::counted(self.all, "CPU sample", "CPU samples"),
            safe(self.module),
            self.address,
            safe(subject(view.profile))
        )
    }

    /// `+0x30`, from the function's beginning.
    fn offset(&self, address: u64) -> String {
        match address.checked_sub(self.address) {
            Some(offset) => format!("+{offset:#x}"),
            None => format!("-{:#x}", self.address - address),
        }
    }

    fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.samples.max(1) as f64
    }

    /// The instruction with where it goes in the function, and whether it waits.
    fn text(&self, line: &Line) -> String {
        let mut text = safe(&line.text);
        if let Some(target) = line.target {
            text.push_str(&format!("  -> {}", self.offset(target)));
        }
        if line.is_pause {
            text.push_str("  <- waits");
        }
        text
    }
}

fn gap(count: usize) -> String {
    format!("... {} without samples", number::counted(count as u64, "instruction", "instructions"))
}

/// As text; where there is nothing to annotate, the reason.
pub fn text(view: &View<'_>, look: Look) -> String {
    let mut page = Page::new(look);
    let annotated = match annotated(view) {
        Ok(annotated) => annotated,
        Err(why) => {
            page.paragraph("", &format!("Nothing to annotate: {why}."), STRONG);
            return page.finish();
        }
    };
    page.hanging("", "  ", &annotated.title(), STRONG);
    page.hanging("", "  ", &annotated.facts(view), QUIET);
    page.blank();
    let head = page.paint(QUIET, &format!("{:>8}{:>8}  {:>8}   instruction", "share", "samples", "at"));
    page.push(&head);
    for row in &annotated.rows {
        match row {
            Row::Gap(count) => {
                let line = page.paint(QUIET, &format!("{:>29}{}", "", gap(*count)));
                page.push(&line);
            }
            Row::Instruction { line, samples, is_target } => {
                let share = annotated.share(*samples);
                let (shown, count) = match samples {
                    0 => (String::new(), String::new()),
                    count => (percent(share), count.to_string()),
                };
                let numbers = format!("{shown:>8}{count:>8}");
                let numbers = match share >= HOT {
                    true => page.paint(AnsiColor::Red.on_default(), &numbers),
                    false => numbers,
                };
                let mark = if *is_target { ">" } else { " " };
                page.push(&format!(
                    "{numbers}  {:>8} {mark} {}",
                    annotated.offset(line.address),
                    annotated.text(line)
                ));
            }
        }
    }
    page.finish()
}

/// What the section needs beyond the style of all pages.
pub const STYLE: &str = "\
table.code{table-layout:auto;border-spacing:0}table.code td{white-space:nowrap;padding:.05rem .6rem}\
table.code th{white-space:nowrap;width:auto!important}table.code td.number{text-align:right;font-variant-numeric:tabular-nums}table.code code{font-size:.85rem}\
table.code tr.hot td{background:#f6c9bb}table.code tr.warm td{background:#fbe9e2}table.code tr.waits code{font-weight:700}\
.wide-table{overflow-x:auto}\
@media (prefers-color-scheme:dark){table.code tr.hot td{background:#6b2a17}table.code tr.warm td{background:#3a211a}}";

/// As a section of a page: a branch is a link to where it goes.
///
/// # Errors
/// There are no CPU samples, or no machine code of where they lie.
pub fn section(view: &View<'_>) -> Result<Markup, NothingToAnnotate> {
    let annotated = annotated(view)?;
    let shown: BTreeSet<u64> = annotated
        .rows
        .iter()
        .filter_map(|row| match row {
            Row::Instruction { line, .. } => Some(line.address),
            Row::Gap(_) => None,
        })
        .collect();
    Ok(html! {
        section.card {
            h2 { (breakable(&annotated.title())) }
            p.quiet { (breakable(&annotated.facts(view))) }
            div.wide-table {
                table.code {
                    thead { tr { th { "share" } th { "samples" } th { "at" } th {} th { "instruction" } } }
                    tbody { @for row in &annotated.rows { (row_html(&annotated, row, &shown)) } }
                }
            }
            p.quiet {
                "A sample names the instruction that the CPU was at: of one that takes long, often the one behind it. "
                "> is where a branch leads."
            }
        }
    })
}

fn row_html(annotated: &Annotated<'_>, row: &Row, shown: &BTreeSet<u64>) -> Markup {
    match row {
        Row::Gap(count) => html! { tr { td {} td {} td {} td {} td.quiet { (gap(*count)) } } },
        Row::Instruction { line, samples, is_target } => {
            let share = annotated.share(*samples);
            let heat = match share {
                hot if hot >= HOT => "hot",
                warm if warm > 0.0 => "warm",
                _ => "",
            };
            let class = if line.is_pause { format!("{heat} waits") } else { heat.to_owned() };
            let id = format!("i{:x}", line.address);
            html! {
                tr class=(class.trim()) id=(id) {
                    td.number { @if *samples > 0 { (percent(share)) } }
                    td.number { @if *samples > 0 { (samples) } }
                    td.number { (annotated.offset(line.address)) }
                    td { @if *is_target { ">" } }
                    td {
                        code { (safe(&line.text)) }
                        @if let Some(target) = line.target {
                            @if shown.contains(&target) {
                                " " a href=(format!("#i{target:x}")) { "-> " (annotated.offset(target)) }
                            } @else { " -> " (annotated.offset(target)) }
                        }
                        @if line.is_pause { " <- waits" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    fn rendered(format: fn(&View<'_>) -> String) -> String {
        let profile = examples::spinning();
        let view = View::new(&profile, &Choice { on_cpu: true, ..Choice::default() }).unwrap();
        format(&view)
    }

    #[test]
    fn the_hottest_function_is_shown_with_its_samples_its_pause_and_where_branches_lead() {
        let text = rendered(|view| text(view, Look { width: 80, colour: false }));
        assert!(text.contains("pause  <- waits") && text.contains("-> +0x2"), "{text}");
        assert!(text.lines().any(|line| line.contains("+0x2 > pause")), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_page_has_a_link_for_each_branch_and_asks_for_nothing() {
        let page = rendered(|view| section(view).unwrap().into_string());
        assert!(page.contains("href=\"#i100002\"") && page.contains("id=\"i100002\""), "{page}");
        for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn what_cannot_be_annotated_says_why() {
        let mut profile = examples::spinning();
        profile.code.clear();
        let view = View::new(&profile, &Choice::default()).unwrap();
        assert!(text(&view, Look { width: 200, colour: false }).contains("no machine code"));
        profile.cpu_samples.clear();
        let view = View::new(&profile, &Choice::default()).unwrap();
        assert!(section(&view).unwrap_err().to_string().contains("--cpu"));
    }

    #[test]
    fn instructions_far_from_samples_are_counted_and_not_listed() {
        let code = Code::new(0, 0x1000, "x86_64", &[0x90; 400]);
        let rows = rows(&code, &HashMap::from([(0x1064, 3)]), 3);
        assert!(matches!(rows[0], Row::Gap(94)) && matches!(rows.last(), Some(Row::Gap(293))));
        assert_eq!(rows.len(), 2 + 1 + 2 * AROUND);
    }
}
