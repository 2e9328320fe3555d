//! `spindoctor indexes`: finds the statements that the optimizer dives for, reads its estimates, and with `--try`
//! measures what would save the dives.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::dives::{Dives, Index, PlanLine};
use spindoctor_collect::host;
use spindoctor_collect::mysql::{QueryError, SessionCost, Target};
use spindoctor_collect::priority::Ahead;
use spindoctor_collect::source::Answer;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Finding, Profile, Sample, ServerVersion, Window, median};
use spindoctor_rules::Outcome;
use spindoctor_rules::causes::index_dive_waste;
use spindoctor_rules::dives::Estimating;
use spindoctor_sql::Select;
use spindoctor_sql::select::Table;
use spindoctor_stacks::Profiler;

use super::args::Indexes as Asked;
use super::comparing::why_no_pages;
use super::estimates::{Candidate, Estimates, Kind, Try};
use super::text;
use super::trial::of_a_run;
use super::view::{
    CandidateReport, Cost, Examined, InStatement, IndexesReport, ListSummary, Planned, Planning, SCHEMA,
    Split, Stacks, in_order, pass_over,
};
use super::watching::{Found, given, start_profiler};
use crate::common::exit::ExitStatus;
use crate::common::flags::Connection;
use crate::common::runtime::wait_for;
use crate::common::session::{note, process, target};
use crate::common::{output, terminal};
use spindoctor_page::{json, number};

/// EXPLAINs of a statement, of each kind: enough for a median, and for pages to stand out.
const EXPLAINS: u32 = 10;
/// They end earlier where they have taken this long.
const EXPLAINING: Duration = Duration::from_millis(500);
/// How long others are watched before pages are counted.
const OTHERS_FOR: Duration = Duration::from_millis(200);
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);

/// Examines the server, and reports.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let _ahead = Ahead::of_others();
    let target = target(&asked.connection)?;
    let report = wait_for(async {
        tokio::select! {
            report = look(asked, &target) => report,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("could not listen for Ctrl-C")?;
                bail!("interrupted");
            }
        }
    })?;
    output::print(&match asked.json {
        true => json::to_text(&report).context("could not write the report as JSON")?,
        false => text::render(&report, terminal::look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}

async fn look(asked: &Asked, target: &Target) -> anyhow::Result<IndexesReport> {
    let (start, cpu_before) = (Timestamp::now(), own_cpu_ms());
    let found = match asked.connection.remote {
        true => Err("--remote was given".to_owned()),
        false => match process(&asked.connection, target) {
            Ok((pid, None)) => Ok(pid),
            Ok((_, Some(why))) => Err(why),
            Err(why) => Err(format!("{why:#}")),
        },
    };
    let process = found.as_ref().ok().map(|pid| host::Target::live(*pid));
    let mut looker = Looker::open(asked, target, process).await?;
    let mut profiler = match (asked.statement.is_empty(), asked.no_stacks) {
        (false, _) => Err("--statement was given".to_owned()),
        (_, true) => Err("--no-stacks was given".to_owned()),
        (true, false) => found.and_then(start_profiler),
    };
    let mut passed = Vec::new();
    let mut statements_found = match asked.statement.is_empty() {
        true => looker.watch(&mut passed, profiler.as_mut().ok()).await?,
        false => given(asked, target, &mut passed),
    };
    statements_found.sort_by_key(|found| Reverse(found.seen));
    if statements_found.len() > usize::from(asked.top) {
        let left = number::counted(
            (statements_found.len() - usize::from(asked.top)) as u64,
            "statement",
            "statements",
        );
        looker.notes.push(format!(
            "{left} that were seen less are left out; --top {} examines all",
            statements_found.len().min(100)
        ));
        statements_found.truncate(usize::from(asked.top));
    }
    let profile = profiler.map(Profiler::finish);
    if let Ok(profile) = &profile {
        looker.notes.extend(profile.notes.iter().cloned());
        looker.stacks = Some(Estimating::from_profile(profile));
    }
    let server = looker.dives.session().server();
    let examined_on = looker.go_on_elsewhere().await?;
    let mut statements = Vec::new();
    for one in &statements_found {
        match looker.examine(one).await? {
            Ok(examined) => statements.push(examined),
            Err(because) => pass_over(&mut passed, because, &one.digest, one.seen),
        }
    }
    in_order(&mut statements);
    passed.sort_by_key(|passed| Reverse(passed.seen));
    let cost = looker.dives.session().cost();
    let report = IndexesReport {
        schema: SCHEMA,
        server,
        examined_on,
        start,
        seconds: looker.seconds,
        looks: looker.looks,
        eq_range_index_dive_limit: looker.limit,
        others_pages_per_s: looker.others_per_s,
        stacks: looker.stacks.as_ref().map(Stacks::from_estimating),
        stacks_not_known: profile.as_ref().err().cloned(),
        findings: profile
            .ok()
            .and_then(|profile| judge(profile, looker.dives.version(), looker.limit))
            .into_iter()
            .collect(),
        statements,
        not_examined: passed,
        notes: looker.notes,
        cost: Cost {
            server_queries: looker.before.queries + cost.queries,
            server_busy_ms: looker.before.busy_ms + cost.busy_ms,
            own_cpu_ms: own_cpu_ms() - cpu_before,
            trial_runs: looker.trial_runs,
        },
    };
    // A server that hangs gets no goodbye.
    drop(tokio::time::timeout(GOODBYE_WITHIN, looker.dives.close()).await);
    Ok(report)
}

/// What a server lacks that has no limit of lists: it writes down no estimates either (`optimizer_trace`: MySQL 5.6.3, MariaDB 10.4.3).
const NO_DIVE_LIMIT: &str = "the server does not say what it estimates, nor from how many values on: it has no \
                             eq_range_index_dive_limit (MySQL has it from 5.6.5 on, MariaDB from 10.2.18 and 10.3.10 on)";

/// Makes a session ready; the server's limit of lists.
async fn ready(asked: &Asked, dives: &mut Dives) -> anyhow::Result<u64> {
    if asked.try_out {
        dives.ready_to_compare().await.context("the session cannot be made ready to compare runs")?;
    }
    dives.dive_limit().await.context(NO_DIVE_LIMIT)
}

/// What the rule says of a profile.
fn judge(profile: Profile, version: ServerVersion, limit: u64) -> Option<Finding> {
    let mut variables = NamedValues::default();
    variables.insert("eq_range_index_dive_limit", limit.to_string());
    let mut sample = Sample::default();
    sample.server.variables = Answer::default().reading(variables);
    let mut window = Window { samples: vec![sample], ..Window::default() };
    window.server.version = Some(version);
    window.profile = Answer::default().reading(profile);
    match index_dive_waste::CAUSE.evaluate(&window, None) {
        Outcome::Fired(finding) => Some(finding),
        Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
    }
}

/// Who asks.
pub(super) struct Looker<'a> {
    pub(super) asked: &'a Asked,
    pub(super) dives: Dives,
    pub(super) limit: u64,
    pub(super) seconds: f64,
    pub(super) looks: u64,
    /// Pages that others asked for a second, the most that was seen.
    pub(super) others_per_s: f64,
    pub(super) trial_runs: u64,
    pub(super) stacks: Option<Estimating>,
    /// What another server was asked before.
    pub(super) before: SessionCost,
    pub(super) notes: Vec<String>,
}

impl<'a> Looker<'a> {
    async fn open(asked: &'a Asked, target: &Target, server: Option<host::Target>) -> anyhow::Result<Self> {
        let mut dives = Dives::connect(target, server).await?;
        dives.session().notes().iter().for_each(|what| note(what));
        let limit = ready(asked, &mut dives).await?;
        Ok(Self {
            asked,
            dives,
            limit,
            seconds: 0.0,
            looks: 0,
            others_per_s: 0.0,
            trial_runs: 0,
            stacks: None,
            before: SessionCost::default(),
            notes: Vec::new(),
        })
    }

    /// From here on another server is asked, where one was named: its name.
    async fn go_on_elsewhere(&mut self) -> anyhow::Result<Option<String>> {
        let Some(on) = &self.asked.on else { return Ok(None) };
        let other = Connection {
            target: Some(on.clone()),
            host: None,
            port: None,
            socket: None,
            pid: None,
            ..self.asked.connection.clone()
        };
        let mut dives = Dives::connect(&target(&other)?, None).await.context("--on")?;
        self.limit = ready(self.asked, &mut dives).await.context("--on")?;
        let watched = std::mem::replace(&mut self.dives, dives);
        self.before = watched.session().cost();
        // A server that hangs gets no goodbye.
        drop(tokio::time::timeout(GOODBYE_WITHIN, watched.close()).await);
        Ok(Some(self.dives.session().server()))
    }

    /// Examines a statement; why not, where it is left alone.
    async fn examine(&mut self, one: &Found) -> anyhow::Result<Result<Examined, String>> {
        let looked = self.estimates(one).await;
        let (estimates, indexes, plan) = match self.settled(looked)? {
            Ok(looked) => looked,
            Err(why) => return Ok(Err(why)),
        };
        if estimates.dives == 0 && one.select.lists.is_empty() && self.asked.statement.is_empty() {
            return Ok(Err("the optimizer dives into no index for it".to_owned()));
        }
        let candidates = estimates.candidates(&one.select, self.dives.version(), &indexes);
        let planned = self.planning(&one.select, &estimates, &candidates).await;
        let planning = match self.settled(planned.map_err(Refused::from))? {
            Ok(planning) => planning,
            Err(why) => Planning { pages_not_counted: Some(why), ..Planning::default() },
        };
        let mut text = Vec::new();
        for candidate in candidates {
            let (mut tried, mut not_tried) = (None, None);
            if self.asked.try_out {
                match self.try_out(&one.select, &candidate, &plan, &indexes).await? {
                    Ok(found) => tried = Some(found),
                    Err(why) => not_tried = Some(why),
                }
            }
            text.push(CandidateReport { candidate, tried, not_tried });
        }
        let pages = text.iter().find_map(|one: &CandidateReport| {
            let tried = one.tried.as_ref()?;
            let run = tried.pages?.before;
            match tried.pages_for_rows {
                Some(counted) => Some(Split::counted(run, counted)),
                None => Some(Split::new(run, planning.as_it_is.pages?)),
            }
        });
        let looks = self.looks.max(1) as f64;
        let stacks = self.stacks.as_ref().and_then(|stacks| stacks.by_digest.get(&one.digest)).copied();
        Ok(Ok(Examined {
            digest: one.digest.clone(),
            statement: self.asked.literals.then(|| one.select.text.clone()),
            database: one.schema.clone(),
            at_once: self.asked.statement.is_empty().then(|| one.seen as f64 / looks),
            executions_per_s: one.rates.map(|(per_s, _)| per_s),
            execution_ms: one.rates.map(|(_, ms)| ms),
            stacks: stacks.map(InStatement::from_counts),
            lists: one.select.lists.iter().map(|list| ListSummary::from_list(list, self.limit)).collect(),
            estimates,
            pages,
            planning,
            candidates: text,
        }))
    }

    /// What the optimizer estimates for a statement, with the indexes of its tables and the plan.
    async fn estimates(&mut self, one: &Found) -> Result<Looked, Refused> {
        let has_schema = |table: &Table| table.schema.is_some() || !one.schema.is_empty();
        if !one.select.tables.iter().all(has_schema) {
            return Err(Refused::Because("its database is not known; --database names it".to_owned()));
        }
        let tables = match self.dives.ready_to_explain(&one.schema, &one.select).await? {
            Ok(tables) => tables,
            Err(why) => return Err(Refused::Because(why.to_string())),
        };
        let explained = self.dives.explain(&one.select.text).await?;
        let analyses = explained.estimates.map_err(Refused::Because)?;
        let mut indexes = Vec::new();
        for (table, name) in one.select.tables.iter().zip(&tables) {
            indexes.push((table.called().to_owned(), self.dives.indexes(name).await?));
        }
        let estimates =
            Estimates::from_analyses(&one.select, &analyses, &explained.plan, &indexes, self.limit);
        Ok((estimates, indexes, explained.plan))
    }

    /// What planning takes, with and without what could be spared.
    async fn planning(
        &mut self,
        select: &Select,
        estimates: &Estimates,
        candidates: &[Candidate],
    ) -> Result<Planning, QueryError> {
        if estimates.dives == 0 {
            return Ok(Planning::default());
        }
        let others = self.others().await?;
        let as_it_is = self.planned(&select.text, others).await?;
        let mut planning = Planning { explains: EXPLAINS, as_it_is, ..Planning::default() };
        let ignoring = candidates.iter().find(|candidate| candidate.kind == Kind::Ignore);
        if let Some(Try::Text(text)) = ignoring.map(|candidate| &candidate.how) {
            planning.without_in_vain = Some(self.planned(text, others).await?);
        }
        if estimates.most_equalities() > 0 {
            // From one value on: every equality is estimated from statistics.
            self.dives.set_dive_limit(Some(1)).await?;
            let planned = self.planned(&select.text, others).await;
            self.dives.set_dive_limit(None).await?;
            planning.without_list_dives = Some(planned?);
        }
        // Others may have begun, or woken up, meanwhile.
        let others = others.max(self.others().await?);
        if !planning.keep_pages_beside(others) {
            planning.pages_not_counted = Some(why_no_pages(others));
        }
        Ok(planning)
    }

    /// Pages that others ask for a second just now.
    pub(super) async fn others(&mut self) -> Result<f64, QueryError> {
        let (before, begun) = (self.dives.pages().await?, Instant::now());
        tokio::time::sleep(OTHERS_FOR).await;
        let (after, took) = (self.dives.pages().await?, begun.elapsed());
        let per_s = ((after.requested - before.requested) / took.as_secs_f64()).max(0.0);
        self.others_per_s = self.others_per_s.max(per_s);
        Ok(per_s)
    }

    /// What an EXPLAIN of a text takes.
    async fn planned(&mut self, text: &str, others_per_s: f64) -> Result<Planned, QueryError> {
        let (before, begun) = (self.dives.pages().await?, Instant::now());
        let mut times_ms = Vec::new();
        while times_ms.len() < EXPLAINS as usize && (times_ms.is_empty() || begun.elapsed() < EXPLAINING) {
            let (took, _) = self.dives.explain_once(text).await?;
            times_ms.push(took.as_secs_f64() * 1e3);
        }
        let (took_s, after) = (begun.elapsed().as_secs_f64(), self.dives.pages().await?);
        let explains = times_ms.len() as u32;
        let pages = of_a_run(after.requested - before.requested, explains, took_s, others_per_s);
        // The first is made whatever it takes.
        Ok(Planned { ms: median(times_ms).unwrap_or_default(), pages })
    }

    /// A refusal is shown with the statement; a broken session ends the command.
    pub(super) fn settled<T>(&self, outcome: Result<T, Refused>) -> anyhow::Result<Result<T, String>> {
        match outcome {
            Ok(value) => Ok(Ok(value)),
            Err(Refused::Because(why)) => Ok(Err(why)),
            Err(Refused::Server(why)) if self.dives.session().is_broken() => {
                Err(why).context("the server stopped answering")
            }
            Err(Refused::Server(QueryError::TooLong { after })) => Ok(Err(format!(
                "it takes longer than {}; --query-timeout gives it more",
                number::duration(after.as_secs_f64())
            ))),
            // What the server says of a statement may repeat its literals.
            Err(Refused::Server(QueryError::Server { code, .. })) if !self.asked.literals => {
                Ok(Err(format!("the server answers with error {code}; --literals shows its words")))
            }
            Err(Refused::Server(why)) => Ok(Err(format!("the server does not take it: {why}"))),
        }
    }
}

/// Estimates, the indexes of each table, the plan.
type Looked = (Estimates, Vec<(String, Vec<Index>)>, Vec<PlanLine>);

/// Why something came to nothing.
pub(super) enum Refused {
    Server(QueryError),
    Because(String),
}

impl From<QueryError> for Refused {
    fn from(why: QueryError) -> Self {
        Self::Server(why)
    }
}

/// CPU time that this process used so far.
fn own_cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_that_have_the_limit_of_lists_are_those_of_the_list_of_variables() {
        let limit = spindoctor_tune::variables::find("eq_range_index_dive_limit").unwrap();
        let has = |version: &str| (limit.is_dynamic_on)(ServerVersion::parse(version, "").unwrap());
        for (before, first) in [
            ("5.6.4", "5.6.5"),
            ("10.2.17-MariaDB", "10.2.18-MariaDB"),
            ("10.3.9-MariaDB", "10.3.10-MariaDB"),
        ] {
            assert!(!has(before) && has(first), "{first}");
            let number = first.trim_end_matches("-MariaDB");
            assert!(NO_DIVE_LIMIT.contains(number), "{NO_DIVE_LIMIT} does not say {number}");
        }
    }
}
