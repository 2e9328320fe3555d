//! `spindoctor stacks`: what every thread does, live or from a saved profile, in the format that was asked for.

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::{anyhow, bail};
use spindoctor_profile::formats::{FORMATS, page};
use spindoctor_profile::{Choice, DIFF_FORMATS, View};
use spindoctor_stacks::file;

use super::args::{Source, Stacks};
use super::{latches, live};
use crate::common::exit::ExitStatus;
use crate::common::{output, terminal};
use spindoctor_page::formats::by_extension;
use spindoctor_page::text::Look;

/// Takes or loads a profile and writes it.
pub fn run(asked: &Stacks) -> anyhow::Result<ExitStatus> {
    if asked.latch_waits {
        latches::run(asked)?;
        return Ok(ExitStatus::Done);
    }
    // What cannot be done is refused before the server is looked at.
    if let Some(file) = &asked.save {
        output::expect_writable(file, &["spinprof"])?;
    }
    if let Some(file) = &asked.output {
        output::expect_format_writable(file, FORMATS, format_name(asked).is_some())?;
    }
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    match asked.diff.as_deref() {
        Some([before, after]) => compare(asked, before, after)?,
        _ => show(asked)?,
    }
    Ok(ExitStatus::Done)
}

fn show(asked: &Stacks) -> anyhow::Result<()> {
    let format = output::chosen_format(FORMATS, format_name(asked), asked.output.as_deref())?;
    if format.binary && asked.output.is_none() && std::io::stdout().is_terminal() {
        bail!(
            "{} is not text for a terminal; give it a file: --output profile.{}",
            format.name,
            format.extension
        );
    }
    let profile = match &asked.load {
        Some(saved) => file::load(saved)?,
        None => live::profile(asked)?,
    };
    if let Some(saved) = &asked.save {
        file::save(saved, &profile)?;
    }
    let choice = choice(asked);
    let view = View::new(&profile, &choice).map_err(|nothing| match &asked.save {
        Some(saved) => anyhow!("{nothing} (what was seen is saved as {})", saved.display()),
        None => nothing.into(),
    })?;
    if let Some(file) = &asked.html {
        output::write_file(file, page(&view), "the page")?;
    }
    write(asked, format.name, &(format.render)(&view, look(asked))?)
}

fn compare(asked: &Stacks, before: &Path, after: &Path) -> anyhow::Result<()> {
    let by_extension = || {
        let name = by_extension(FORMATS, &asked.output.as_deref()?.to_string_lossy())?.name;
        Some(name)
    };
    let name = format_name(asked).or_else(by_extension).unwrap_or(DIFF_FORMATS[0].name);
    let Some(format) = DIFF_FORMATS.iter().find(|format| format.name == name) else {
        let names: Vec<&str> = DIFF_FORMATS.iter().map(|format| format.name).collect();
        bail!("a comparison cannot be written as {name}; it can as {}", names.join(", "));
    };
    let (before, after) = (file::load(before)?, file::load(after)?);
    let choice = choice(asked);
    let (before, after) = (View::new(&before, &choice)?, View::new(&after, &choice)?);
    write(asked, name, (format.render)(&before, &after, look(asked))?.as_bytes())
}

fn format_name(asked: &Stacks) -> Option<&str> {
    if asked.json { Some("json") } else { asked.format.as_deref() }
}

fn choice(asked: &Stacks) -> Choice {
    Choice {
        by: asked.by,
        on_cpu: asked.cpu || asked.source == Some(Source::Cpu),
        full_names: asked.full_names,
        threads: asked.thread.clone(),
        grep: asked.grep.clone(),
    }
}

/// A file is as wide as a mail; standard output has its own width.
fn look(asked: &Stacks) -> Look {
    match &asked.output {
        Some(_) => Look::of_file(),
        None => terminal::wide_look_of_stdout(),
    }
}

fn write(asked: &Stacks, format: &str, bytes: &[u8]) -> anyhow::Result<()> {
    match &asked.output {
        Some(written) => output::write_file(written, bytes, "the profile"),
        None => output::print_format(format, bytes),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Profile;
    use spindoctor_profile::examples;

    use super::*;

    use crate::common::browser;

    fn page_of(profile: &Profile, on_cpu: bool) -> String {
        page(&View::new(profile, &Choice { on_cpu, ..Choice::default() }).unwrap())
    }

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages =
            [("busy", page_of(&examples::busy(), false)), ("spinning", page_of(&examples::spinning(), true))];
        assert_eq!(browser::faults(&pages), "");
    }
}
