//! `spindoctor bundle`: cuts a part out of a recording, makes texts of it, asks the server where one is named, and writes all
//! of it into one file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use spindoctor_model::Event;
use spindoctor_record::span::{Ends, Span, after, before};
use spindoctor_record::{CutOptions, Recording, add_to_cut, cut};

use super::args::Bundle as Asked;
use super::live::{self, Wanted};
use super::statements::{Statement, Statements};
use super::texts::{self, Head, Pack};
use crate::common::bundle::{self, Manifest, Text};
use crate::common::event_window::{add_diagnosis, of_event};
use crate::common::exit::ExitStatus;
use crate::common::passing::{Passing, PassingFolder};
use crate::common::recorded::{self, Opened};
use crate::common::runtime::wait_for;
use crate::common::stalls::day_and_time;
use crate::common::{output, session};

/// Endings of the names of bundles.
const ENDINGS: &[&str] = &["gz", "tgz", "tar"];
/// So much before an event goes with it: the baseline, two minutes at most, and before that a minute in
/// which the slowest lists were read once.
const BEFORE: Duration = Duration::from_secs(300);
/// And so much after it.
const AFTER: Duration = Duration::from_secs(120);
/// Statements that the server is asked about.
const MOST_STATEMENTS: usize = 40;

/// Packs.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    expect_free(&asked.out, &asked.file)?;
    let source = recorded::open(&asked.file)?;
    let part = Part::from_flags(asked, &source)?;
    let folder = PassingFolder::for_recording(bundle::RECORDING)
        .context("could not make a folder for the part of the recording")?;
    let copy = folder.recording.clone();
    let options =
        CutOptions { span: part.span, literals: asked.literals, most_bytes: bundle::MOST_RECORDING_BYTES };
    let copied = cut(&source, &copy, options)?;
    let recording = Recording::open(&copy)?;
    let Some(ends) = recording.extent()? else {
        bail!(
            "{} has no sample from {} to {}",
            asked.file.display(),
            day_and_time(part.span.from),
            day_and_time(part.span.to)
        );
    };
    diagnose_again(&recording, &copy, &copied.undiagnosed)?;
    let mut pack = Pack::default();
    texts::add_report(&mut pack, &recording, &asked.file, part.event);
    let events = copied.events.iter().map(|id| recording.event(*id));
    let events: Vec<Event> = events.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    texts::add_stacks(&mut pack, &events);
    let (server, host) = match recorded::window(&recording, Span::new(ends.0, ends.1))? {
        Some(window) => {
            texts::add_values(&mut pack, &window);
            let version = window.server.version.map(|version| version.to_string());
            let host = window.server.hostname;
            let version = version.as_deref().unwrap_or("a server");
            // A server that never answered has not said its host's name.
            (if host.is_empty() { version.to_owned() } else { format!("{version} on {host}") }, host)
        }
        None => ("a server".to_owned(), String::new()),
    };
    match asked.has_server() {
        true => ask(asked, &source, part.span, &host, &mut pack)?,
        false => pack.leave_out(
            live::WHAT,
            "no server was named; with -h, -S or mysql://user@host/ it is asked for them",
        ),
    }
    let head = Head {
        server: &server,
        ends,
        samples: copied.samples,
        event: part.event,
        events: events.len() as u64,
        literals: asked.literals,
    };
    let bytes = std::fs::metadata(&copy).context("the part of the recording is gone")?.len();
    let readme = texts::readme(&head, &pack, bytes);
    pack.texts
        .insert(0, Text { name: "README.txt".to_owned(), about: "what is in here", bytes: readme.into() });
    let manifest = Manifest {
        schema: bundle::SCHEMA.to_owned(),
        written_by: env!("CARGO_PKG_VERSION").to_owned(),
        made: Timestamp::now(),
        server: server.clone(),
        from: ends.0,
        to: ends.1,
        event: part.event,
        literals: asked.literals,
        files: texts::listed(&pack, bytes),
        left_out: std::mem::take(&mut pack.left_out),
    };
    let written = write(&asked.out, &manifest, &copy, &pack.texts)
        .with_context(|| format!("could not write {}", asked.out.display()))?;
    output::print(&texts::summary(&asked.out, written, &manifest, &head, &pack.notes))?;
    Ok(ExitStatus::Done)
}

/// Fails where the bundle would take the place of something else.
fn expect_free(out: &Path, source: &Path) -> anyhow::Result<()> {
    let is_file = std::fs::metadata(out).is_ok_and(|found| found.is_file() && found.len() > 0);
    if is_file && !bundle::is_one(out) {
        bail!("{} is there and is not a bundle, so it is not replaced; name another file", out.display());
    }
    let place = |file: &Path| std::fs::canonicalize(file).ok();
    if is_file && place(out) == place(source) {
        bail!("{} is what is to be read; name another file to write", out.display());
    }
    output::expect_writable(out, ENDINGS)
}

/// What is wanted of a recording.
struct Part {
    span: Span,
    event: Option<u64>,
}

impl Part {
    fn from_flags(asked: &Asked, source: &Opened) -> anyhow::Result<Self> {
        let name = asked.file.display();
        let Some((first, last)) = source.extent()? else {
            bail!("{name} has no sample yet; the recorder writes one a second");
        };
        let extent = Span::new(first, last);
        let (wanted, event) = match asked.around {
            Some(id) => {
                let events = source.events()?;
                let Some(head) = events.iter().find(|head| head.id == id) else {
                    match events.last() {
                        Some(last) => bail!("{name} has no event {id}; the last is {}", last.id),
                        None => bail!("{name} has no event {id}; it has none"),
                    }
                };
                let ends = Ends::of_segments(&source.segments()?, &source.stretches(0)?);
                let ended = ends.until(head).unwrap_or(last);
                (Span::new(before(head.began, BEFORE), after(ended, AFTER)), Some(id))
            }
            None => {
                let from = asked.last.or(asked.from).map_or(first, |from| from.resolved(last));
                let to = asked.to.map_or(last, |to| to.resolved(last));
                ensure!(from <= to, "--from {} is after --to {}", day_and_time(from), day_and_time(to));
                (Span::new(from, to), None)
            }
        };
        let Some(span) = wanted.within(extent) else {
            bail!(
                "{name} has no sample from {} to {}: it reaches from {} to {}",
                day_and_time(wanted.from),
                day_and_time(wanted.to),
                day_and_time(first),
                day_and_time(last)
            );
        };
        Ok(Self { span, event })
    }
}

/// Diagnoses events of a copy by what it has itself.
fn diagnose_again(recording: &Recording, copy: &Path, events: &[u64]) -> anyhow::Result<()> {
    let mut diagnosed = Vec::new();
    for id in events {
        let Some(event) = recording.event(*id)? else { continue };
        let Some(window) = of_event(recording, &event)? else { continue };
        // What is not named here stays as it was written.
        let mut again = Event { head: event.head, ..Event::default() };
        add_diagnosis(&mut again, Some(spindoctor_rules::diagnose(&window)));
        diagnosed.push(again);
    }
    if !diagnosed.is_empty() {
        add_to_cut(copy, false, diagnosed)?;
    }
    Ok(())
}

/// Asks the server that was named about the statements of a part.
fn ask(asked: &Asked, source: &Opened, span: Span, host: &str, pack: &mut Pack) -> anyhow::Result<()> {
    let target = session::target(&asked.connection)?;
    let statements = statements(source, span)?;
    let since = Duration::try_from(Timestamp::now().duration_since(span.from)).unwrap_or_default();
    let wanted = Wanted { statements: &statements, since, literals: asked.literals, recorded: host };
    wait_for(async {
        tokio::select! {
            () = live::ask(&target, &wanted, pack) => Ok(()),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("could not listen for Ctrl-C")?;
                bail!("interrupted");
            }
        }
    })
}

fn statements(source: &Opened, span: Span) -> anyhow::Result<Vec<Statement>> {
    let mut statements = Statements::new(source.has_literals(span.from, span.to)?);
    for piece in source.pieces(span) {
        let piece = piece?;
        source.samples(piece.from, piece.to)?.iter().for_each(|sample| statements.add(sample));
    }
    Ok(statements.costliest(MOST_STATEMENTS))
}

/// Writes the archive beside its place, and gives it its name when it is whole; its size.
fn write(out: &Path, manifest: &Manifest, recording: &Path, texts: &[Text]) -> anyhow::Result<u64> {
    let is_compressed = out.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("tar"));
    let is_special = std::fs::metadata(out).is_ok_and(|found| !found.is_file());
    let partial = Partial::beside(out, is_special);
    let mut file = BufWriter::new(spindoctor_safefile::create(&partial.path)?);
    bundle::write(&mut file, is_compressed, manifest, recording, texts)?;
    file.flush()?;
    let file: File = file.into_inner()?;
    let bytes = file.metadata()?.len();
    if !is_special {
        file.sync_all()?;
        std::fs::rename(&partial.path, out)?;
    }
    Ok(bytes)
}

/// A file that has not its name yet; it goes when this is dropped before that, or a signal ends the program.
struct Partial {
    path: PathBuf,
    /// None of what is no file.
    passing: Option<Passing>,
}

impl Partial {
    /// `.a.tar.gz.partial` beside `a.tar.gz`; what is no file is written to as it is.
    fn beside(out: &Path, is_special: bool) -> Self {
        if is_special {
            return Self { path: out.to_owned(), passing: None };
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(out.file_name().unwrap_or_default());
        name.push(".partial");
        let path = out.with_file_name(name);
        let passing = Some(Passing::for_file(&path));
        Self { path, passing }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is gone where the file got its name.
        if self.passing.is_some() {
            drop(std::fs::remove_file(&self.path));
        }
    }
}
