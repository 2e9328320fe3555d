//! `spindoctor cache`: which files fill the page cache; on request it evicts logs that nobody will read soon.
//!
//! `cache::plan` decides which parts may be evicted, from the server's open files and answers;
//! `collect::host::page_cache`, which handles only logs, evicts them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::file_facts::{self, FileFacts, Traffic};
use spindoctor_collect::host;
use spindoctor_collect::host::page_cache::{self, Evictor, Files, Places, Scope};
use spindoctor_collect::mysql::{Session, SessionCost, Target};
use spindoctor_model::host::ProcessStat;
use spindoctor_model::page_cache::CachedFile;
use spindoctor_model::{HostSample, Unavailable};

use super::args::Cache as Asked;
use super::plan::{Part, add_descriptors, plan};
use super::view::{
    CacheReport, Cost, Eviction, Rate, SCHEMA, Server, add_rates, changes, kinds, others_bytes,
};
use super::{settings, text};
use crate::common::exit::ExitStatus;
use crate::common::runtime::wait_for;
use crate::common::session::{note, process, target};
use crate::common::{output, terminal};
use spindoctor_page::json;
use spindoctor_page::safe::safe_json;

/// Before logs leave, so many more looks at who reads them: a dump thread has no file open for some microseconds between two.
const LOOKS_AT_READERS: u32 = 3;
/// Between two of these.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// With a bound on the rate, so much at once: the kernel drops it in some milliseconds.
const AT_ONCE_BYTES: u64 = 16 << 20;
/// With --follow, what left the cache is counted from here on: the redo log goes round all the time.
const WORTH_A_LINE_BYTES: u64 = 1 << 20;
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);

/// Looks, takes out what may leave where asked to, and shows both.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if asked.connection.remote {
        bail!("the page cache is the host's: run spindoctor on the server's host, without --remote");
    }
    let target = target(&asked.connection)?;
    let (pid, other) = process(&asked.connection, &target)?;
    wait_for(async {
        let mut server = Looker::open(asked, target, pid, other).await?;
        tokio::select! {
            shown = show(asked, &mut server) => shown?,
            interrupted = tokio::signal::ctrl_c() => interrupted.context("could not listen for Ctrl-C")?,
        }
        server.close().await;
        Ok(())
    })?;
    Ok(ExitStatus::Done)
}

async fn show(asked: &Asked, server: &mut Looker) -> anyhow::Result<()> {
    let report = server.look(asked).await?;
    match (asked.json, asked.follow) {
        (true, false) => {
            return output::print(&json::to_text(&report).context("could not write the page cache as JSON")?);
        }
        (true, true) => output::print(&one_line(report)?)?,
        (false, _) => output::print(&text::render(&report, terminal::look_of_stdout()))?,
    }
    if !asked.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(asked.interval).await;
        let Some(report) = server.look_again(asked).await? else { continue };
        let line = if asked.json { one_line(report)? } else { text::line(&report).unwrap_or_default() };
        output::print(&line)?;
    }
}

/// A look as one line of JSON, with the logs alone.
fn one_line(mut report: CacheReport) -> anyhow::Result<String> {
    report.files.retain(|file| file.kind.is_log());
    Ok(format!("{}\n", safe_json(&serde_json::to_string(&report).context("could not write JSON")?)))
}

/// Whose files are looked at.
struct Looker {
    process: host::Target,
    /// None where the connection leads to another process than the one that was named.
    target: Option<Target>,
    session: Option<Session>,
    /// What could not be done, and stays so.
    notes: Vec<String>,
    places: Places,
    facts: Option<FileFacts>,
}

impl Looker {
    async fn open(asked: &Asked, target: Target, pid: u32, other: Option<String>) -> anyhow::Result<Self> {
        let mut looker = Self {
            process: host::Target::live(pid),
            target: other.is_none().then_some(target),
            session: None,
            notes: other.into_iter().collect(),
            places: Places::default(),
            facts: None,
        };
        match looker.connect().await {
            Ok(()) => {}
            // Its files are worth a look without it.
            Err(why) if asked.connection.pid.is_some() => looker.notes.push(format!("no session: {why:#}")),
            Err(why) => return Err(why),
        }
        Ok(looker)
    }

    async fn connect(&mut self) -> anyhow::Result<()> {
        let Some(target) = &self.target else { return Ok(()) };
        let session = Session::connect(target, &target.limits).await?;
        session.notes().iter().for_each(|what| note(what));
        self.session = Some(session);
        Ok(())
    }

    /// Asks the server what it says of its files. A session that breaks is no more.
    async fn ask(&mut self) {
        let Some(session) = &mut self.session else { return };
        match file_facts::ask(session).await {
            Ok(facts) => self.facts = Some(facts),
            Err(why) => {
                (self.session, self.facts) = (None, None);
                self.notes.push(format!("the server does not answer: {why}"));
            }
        }
    }

    async fn traffic(&mut self) -> Traffic {
        match &mut self.session {
            Some(session) => file_facts::traffic(session).await.unwrap_or_default(),
            None => Traffic::default(),
        }
    }

    fn cost(&self) -> SessionCost {
        self.session.as_ref().map(Session::cost).unwrap_or_default()
    }

    /// A look at all files, with rates.
    async fn look(&mut self, asked: &Asked) -> anyhow::Result<CacheReport> {
        let (cost_before, cpu_before) = (SessionCost::default(), own_cpu_ms());
        self.ask().await;
        self.places = match self.facts.as_ref().and_then(|facts| Places::from_variables(&facts.variables)) {
            Some(places) => places,
            None => Places::seen(&self.process).map_err(as_error)?,
        };
        let (first, host_first, begun) = (self.traffic().await, self.host(), Instant::now());
        let files = page_cache::look(&self.process, &self.places, Scope::All).map_err(as_error)?;
        let look_ms = begun.elapsed().as_secs_f64() * 1e3;
        tokio::time::sleep(asked.duration.saturating_sub(begun.elapsed())).await;
        let (last, host_last, seconds) = (self.traffic().await, self.host(), begun.elapsed().as_secs_f64());
        let grown = page_cache::look(&self.process, &self.places, Scope::Logs).map_err(as_error)?;

        let mut report = self.report(&files, look_ms);
        report.seconds = seconds;
        add_rates(&mut report.kinds, &first, &last, &grown.files, seconds);
        report.rates_source = last.source;
        report.storage = storage(&host_first, &host_last, seconds);
        report.memory = host_last.memory.value().cloned();
        report.others_bytes = others_bytes(&report.kinds, report.memory.as_ref());
        let mut seen = files.files;
        add_descriptors(&mut seen, &grown.files);
        self.decide(asked, &mut report, seen, Scope::All, None).await?;
        self.settle(&mut report, cost_before, cpu_before);
        Ok(report)
    }

    /// A look at the logs, to keep them out; None where the server does not answer now, or hardly anything left.
    async fn look_again(&mut self, asked: &Asked) -> anyhow::Result<Option<CacheReport>> {
        let (cost_before, cpu_before) = (self.cost(), own_cpu_ms());
        if self.session.is_none() && self.target.is_some() && self.connect().await.is_err() {
            return Ok(None);
        }
        self.notes.clear();
        self.ask().await;
        if self.facts.is_none() && self.target.is_some() {
            return Ok(None);
        }
        let begun = Instant::now();
        let files = page_cache::look(&self.process, &self.places, Scope::Logs).map_err(as_error)?;
        let mut report = self.report(&files, begun.elapsed().as_secs_f64() * 1e3);
        self.decide(asked, &mut report, files.files, Scope::Logs, Some(asked.max_rate)).await?;
        self.settle(&mut report, cost_before, cpu_before);
        let is_worth_a_line =
            |eviction: &Eviction| eviction.freed_bytes() >= WORTH_A_LINE_BYTES || !eviction.failed.is_empty();
        Ok(report.eviction.as_ref().is_some_and(is_worth_a_line).then_some(report))
    }

    /// What a look saw, without rates.
    fn report(&self, files: &Files, look_ms: f64) -> CacheReport {
        let variables = self.facts.as_ref().map(|facts| facts.variables.clone()).unwrap_or_default();
        let version = self.session.as_ref().and_then(Session::version);
        let mut notes = self.notes.clone();
        notes.extend(files.notes.iter().cloned());
        notes.extend(
            files.uncounted.iter().map(|why| format!("some files were not counted: {}", in_words(why))),
        );
        if files.is_cut {
            notes.push("there are more files than were checked".to_owned());
        }
        CacheReport {
            schema: SCHEMA,
            server: Server {
                name: self.session.as_ref().map(Session::server),
                pid: self.process.pid,
                data_directory: self.places.data_directory().to_owned(),
            },
            at: Timestamp::now(),
            seconds: 0.0,
            look_ms,
            method: files.method,
            memory: None,
            kinds: kinds(&files.files),
            others_bytes: None,
            storage: None,
            rates_source: "",
            buffer_pool_bytes: variables.text("innodb_buffer_pool_size").and_then(|bytes| bytes.parse().ok()),
            evictable_bytes: 0,
            eviction: None,
            kept: Vec::new(),
            settings: settings::explain(version, &variables, &files.files),
            notes,
            cost: Cost::default(),
            files: Vec::new(),
        }
    }

    /// Says what may leave; where asked to, takes it out and looks again.
    async fn decide(
        &self,
        asked: &Asked,
        report: &mut CacheReport,
        mut files: Vec<CachedFile>,
        scope: Scope,
        bytes_per_s: Option<u64>,
    ) -> anyhow::Result<()> {
        if asked.evict.is_some() {
            for _ in 0..LOOKS_AT_READERS {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                let again = page_cache::look(&self.process, &self.places, Scope::Logs).map_err(as_error)?;
                add_descriptors(&mut files, &again.files);
            }
        }
        let plan = plan(&files, self.facts.as_ref());
        report.evictable_bytes = plan.evictable_bytes(&files);
        report.kept = plan.kept;
        if asked.evict.is_some() && (!plan.parts.is_empty() || !asked.follow || scope == Scope::All) {
            let begun = Instant::now();
            let failed = self.take_out(&files, &plan.parts, bytes_per_s).await?;
            let took_ms = begun.elapsed().as_secs_f64() * 1e3;
            let after = page_cache::look(&self.process, &self.places, scope).map_err(as_error)?.files;
            report.eviction = Some(Eviction {
                files: plan.parts.len() as u64 - failed.len() as u64,
                took_ms,
                changes: changes(&files, &after),
                failed,
            });
            // The report shows the present state.
            for kind in kinds(&after) {
                if let Some(shown) = report.kinds.iter_mut().find(|shown| shown.kind == kind.kind) {
                    (shown.cached_bytes, shown.dirty_bytes) = (kind.cached_bytes, kind.dirty_bytes);
                }
            }
            files = after;
        }
        report.files = files;
        Ok(())
    }

    /// Takes parts of logs out of the page cache, at most so fast; what did not work.
    async fn take_out(
        &self,
        files: &[CachedFile],
        parts: &[Part],
        bytes_per_s: Option<u64>,
    ) -> anyhow::Result<Vec<String>> {
        let evictor = Evictor::for_server(&self.process).map_err(as_error)?;
        let mut failed = Vec::new();
        for Part { file, range } in parts {
            let log = match evictor.open(&files[*file]) {
                Ok(log) => log,
                Err(why) => {
                    failed.push(in_words(&why));
                    continue;
                }
            };
            let at_once = if bytes_per_s.is_some() { AT_ONCE_BYTES } else { u64::MAX };
            let mut from = range.start;
            while from < range.end {
                let to = range.end.min(from.saturating_add(at_once));
                if let Err(why) = log.drop_pages(&(from..to)) {
                    failed.push(in_words(&why));
                    break;
                }
                if let Some(bytes_per_s) = bytes_per_s {
                    let pause_s = (to - from) as f64 / bytes_per_s.max(1) as f64;
                    tokio::time::sleep(Duration::from_secs_f64(pause_s)).await;
                }
                from = to;
            }
        }
        Ok(failed)
    }

    /// What the kernel says of the process and of memory.
    fn host(&self) -> HostSample {
        let (mut sample, begun) = (HostSample::default(), Instant::now());
        for source in [host::process::SOURCE, host::memory::SOURCE] {
            source.read_into(&mut sample, &self.process, begun);
        }
        sample
    }

    fn settle(&self, report: &mut CacheReport, before: SessionCost, cpu_before_ms: f64) {
        let cost = self.cost();
        report.cost = Cost {
            server_queries: cost.queries.saturating_sub(before.queries),
            server_busy_ms: (cost.busy_ms - before.busy_ms).max(0.0),
            own_cpu_ms: own_cpu_ms() - cpu_before_ms,
        };
    }

    async fn close(&mut self) {
        if let Some(session) = self.session.take() {
            // A server that hangs gets no goodbye.
            drop(tokio::time::timeout(GOODBYE_WITHIN, session.close()).await);
        }
    }
}

/// What the process read from and wrote to storage between two looks.
fn storage(first: &HostSample, last: &HostSample, seconds: f64) -> Option<Rate> {
    let (first, last) = (first.process.value()?, last.process.value()?);
    let per_s = |pick: fn(&ProcessStat) -> Option<u64>| {
        Some(pick(last)?.checked_sub(pick(first)?)? as f64 / seconds.max(f64::MIN_POSITIVE))
    };
    Some(Rate {
        read_bytes_per_s: per_s(|process| process.read_bytes),
        written_bytes_per_s: per_s(|process| process.written_bytes),
    })
}

fn in_words(why: &Unavailable) -> String {
    match &why.unlock {
        Some(unlock) => format!("{}; {unlock}", why.because),
        None => why.because.clone(),
    }
}

fn as_error(why: Unavailable) -> anyhow::Error {
    let because = match why.unlock {
        Some(unlock) => format!("{}; {unlock}", why.because),
        None => why.because,
    };
    anyhow!(because).context("the server's files cannot be read")
}

/// CPU time that this process used so far.
fn own_cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}
