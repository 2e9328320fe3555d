//! `index-dive-waste`: the optimizer looks ranges up in indexes to estimate them, and that costs more than running the
//! statement.

mod partitions;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::cpu_saturated;
use crate::below::is_below;
use crate::dives::{DIVES, Estimating, lists_values};
use crate::draft::Draft;
use crate::rank::WARNING_FROM;
use crate::seen_most::{SeenMost, is_within_program};
use crate::sessions;
use crate::spin_samples::{self, SpinSamples};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use partitions::Partitions;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "index-dive-waste",
    title: "the optimizer's range estimates read more pages than the query",
    what: "Before a statement with ranges or lists of values runs, the optimizer asks the engine how many rows lie in each \
           range, of each index that could serve it. InnoDB dives into the index for the answer: twice from the root to a \
           leaf, at the range's beginning and at its end, and along some leaves between. A list of a hundred values and three \
           candidate indexes are six hundred descents, whether the statement then reads a thousand rows or one.",
    why_it_hurts: "The pages that estimates read take CPU, latches and room in the buffer pool, and where they are not in \
                   memory they are read from disk, for indexes that the statement does not use. The more alike the indexes \
                   of a table are, the more of them are dived into.",
    evidence: "CPU samples in the server's call for all ranges of an index or in InnoDB's for one \
               (handler::multi_range_read_info_const, records_in_range, btr_estimate_n_rows_in_range), and stacks of \
               sessions that wait in it for a page from disk. It fires where a tenth of the CPU or of the sessions at work \
               is there. The estimate is the larger share. Where most dives lie in functions of tables with partitions (ha_innopart, \
               ha_partition) and no statement at work has a list, each value is most likely looked up in each partition. The statement \
               named is the one that was seen most in dives, else at work.",
    looks_alike: "Time in the executor's own range scan (multi_range_read_next) is the query itself. Statistics that are \
                  recomputed all the time are statistics-stall. A statement that reads far more rows than it sends is \
                  rows-read-waste.",
    remedies: "Of a table with partitions, a condition on the column that it is partitioned by, or fewer partitions. Lower \
               eq_range_index_dive_limit, where statements have lists: lists as long as that are estimated from the index's statistics, \
               without a dive. FORCE INDEX on the statement: since MySQL 8.0.3 a statement on one table with one forced index, without \
               subquery, full-text search, GROUP BY, DISTINCT and ORDER BY dives into nothing. Drop indexes that only look \
               like the one that is used: each is dived into, too. `spindoctor indexes` says which statement, which index and whether \
               FORCE INDEX would skip the dives; with --try it measures that, reading only.",
    safety: "Without dives plans rest on statistics: where values are spread unevenly a plan may change. Compare EXPLAIN of \
             the statements with lists first. Sessions keep the limit that they began with. A forced index stays forced when \
             a better one comes.",
    references: &[
        "Domas Mituzas, A case for FORCE INDEX",
        "MySQL Reference Manual: Equality Range Optimization of Many-Valued Comparisons; WL#6526: FORCE INDEX to avoid index \
         dives when possible",
        "InnoDB source, btr0cur.cc: btr_estimate_n_rows_in_range",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Read],
    stacks: Stacks::Running(DIVES),
    rule: Rule::ReadingsOrCapture(evaluate, of_list),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From here on estimates are no small part of the work: short range queries of sysbench's healthy OLTP load have some
/// hundredths. Chosen, not derived.
const SHARE: f64 = 0.10;

/// The default of MySQL 5.6, before it became 200.
const FEWER: f64 = 10.0;

/// The default of MySQL since 5.7.
const USUAL: f64 = 200.0;

/// Sessions of a captured list in the optimizer, from which on they are a crowd. By judgement.
const CROWD: usize = 4;

/// Values of a list by its commas, from which on it is long. By judgement: MySQL looks up each of fewer than 200 by default.
const LONG_LIST: usize = 20;

/// What a captured process list shows: most sessions at work are in the optimizer (`statistics`), with long lists of values. It does not
/// say whether they run; reading pages for a primary key's only row has the same state, and no long list.
fn of_list(window: &Window) -> Option<Finding> {
    let threads = window.latest(|sample| &sample.server.threads).filter(|_| window.is_given())?;
    let at_work: Vec<&ServerThread> = sessions::at_work(threads).collect();
    let has_list = |statement: &str| {
        let lower = statement.to_ascii_lowercase();
        let list = lower.split_once(" in (").or_else(|| lower.split_once(" in("));
        list.is_some_and(|(_, list)| {
            list.split(')').next().unwrap_or_default().bytes().filter(|byte| *byte == b',').count()
                >= LONG_LIST
        })
    };
    let estimating = at_work
        .iter()
        .filter(|thread| thread.state.eq_ignore_ascii_case("statistics"))
        .filter(|thread| thread.statement.as_deref().is_some_and(has_list))
        .count();
    if estimating < CROWD || 2 * estimating < at_work.len() {
        return None;
    }
    let limit = window.variable_number("eq_range_index_dive_limit");
    // Where somebody has raised it, or switched it off, what MySQL comes with; else fewer.
    let proposed = if limit.is_some_and(|limit| limit > USUAL || limit == 0.0) { USUAL } else { FEWER };
    Some(
        Draft::new(
            &CAUSE,
            WARNING_FROM,
            format!("{estimating} of {} sessions at work are in the optimizer, with long lists of values", at_work.len()),
        )
        .why(
            "Each value of an IN list with fewer of them than eq_range_index_dive_limit is looked up in each index that could serve it, before \
             the statement runs (state `statistics`). A list does not say whether they run or wait.",
        )
        .evidence(Evidence::new("sessions in `statistics` with a long list", estimating as f64, "", "thread list"))
        .evidence_if(limit.map(|limit| Evidence::new("eq_range_index_dive_limit", limit, "", "SHOW GLOBAL VARIABLES")))
        .remedy(Remedy {
            statement: format!("SET GLOBAL eq_range_index_dive_limit = {proposed:.0}"),
            why: "For longer lists the optimizer then takes the index's statistics in place of a look for each value; 200 is what MySQL comes \
                  with since 5.7."
                .into(),
            dynamic: true,
            risk: "Where values are unevenly distributed another index may be chosen: compare EXPLAIN before and after.".into(),
            undo: limit.map_or_else(
                || "SET GLOBAL eq_range_index_dive_limit to what SELECT @@eq_range_index_dive_limit says before".to_owned(),
                |limit| format!("SET GLOBAL eq_range_index_dive_limit = {limit:.0}"),
            ),
        })
        .remedy(Remedy {
            statement: "Send shorter lists, or join with a table of the values".into(),
            why: "Then there is less to estimate.".into(),
            dynamic: true,
            risk: "A change of the application.".into(),
            undo: String::new(),
        })
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    )
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let of_cpu = match SpinSamples::unless_idle(window)? {
        Some(samples) => {
            let profile = samples.profile();
            samples.share_of(|sample| is_below(profile, sample, DIVES))
        }
        None => 0.0,
    };
    let reading = reading_share(window);
    let score = of_cpu.max(reading);
    if score < SHARE {
        return Ok(None);
    }
    let limit = window.variable_number("eq_range_index_dive_limit");
    let is_of_lists = lists_values(window).unwrap_or(true);
    let partitions = Partitions::from_window(window);
    let statement = statement(window);
    let headline = match of_cpu >= reading {
        true => format!("Estimates of the optimizer take {:.0} % of the CPU: index dives", of_cpu * 100.0),
        false => format!(
            "{:.0} % of the sessions at work wait for pages that only the optimizer's estimates read",
            reading * 100.0
        ),
    };
    let headline = format!(
        "{headline}{}{}",
        partitions.as_ref().map_or("", |_| Partitions::headline(is_of_lists)),
        statement.as_ref().map_or_else(String::new, |(text, _)| {
            let within = if is_within_program(text) { ", within a stored program" } else { "" };
            format!("; seen most: {}{within}", sessions::shortened(text))
        })
    );
    let text = statement.as_ref().map(|(text, _)| text.as_str());
    let of_partitions: Vec<Remedy> =
        partitions.iter().flat_map(|_| Partitions::remedies(window, text)).collect();
    // Of lists these are the first reason.
    let (before, behind) =
        if is_of_lists { (Vec::new(), of_partitions) } else { (of_partitions, Vec::new()) };
    Ok(Some(
        Draft::new(&CAUSE, score, headline)
            .why(match limit {
                _ if !is_of_lists && partitions.is_some() => Partitions::why().to_owned(),
                _ if !is_of_lists => "The statements that were seen at work compare with single values: each is looked up in each index \
                                      that could serve it, and in each partition of the table, whatever eq_range_index_dive_limit is."
                    .to_owned(),
                Some(0.0) => "Each value of a list is looked up in each index that could serve it, however long the list \
                              is (eq_range_index_dive_limit = 0)."
                    .to_owned(),
                Some(limit) => format!(
                    "Each value of a list with fewer than {limit:.0} of them (eq_range_index_dive_limit) is looked up in each \
                     index that could serve it, before the statement runs."
                ),
                None => "Each range is looked up in each index that could serve it, before the statement runs.".to_owned(),
            })
            .evidence(Evidence::new("CPU in index dives", of_cpu, "ratio", "CPU samples").expected(format!("< {SHARE}")))
            .evidence(
                Evidence::new("sessions at work that read pages for estimates", reading, "ratio", "stacks")
                    .expected(format!("< {SHARE}")),
            )
            .evidence_if(limit.map(|limit| {
                Evidence::new("eq_range_index_dive_limit", limit, "", "SHOW GLOBAL VARIABLES")
            }))
            .evidence_if(partitions.as_ref().map(Partitions::evidence))
            .evidence_if(statement.as_ref().map(|(text, source)| {
                Evidence::new("statement seen most", text.clone(), "", source)
            }))
            .remedies(before)
            .remedy_if(limit.filter(|&limit| is_of_lists && (limit == 0.0 || limit > FEWER)).map(|limit| Remedy {
                // Not a plain value: a trial in blocks could not show it, as sessions keep theirs.
                statement: format!("SET GLOBAL eq_range_index_dive_limit = {FEWER:.0}, and reconnect"),
                why: format!("Lists of {FEWER:.0} values and more are then estimated from the index's statistics."),
                dynamic: true,
                risk: "Where values are unevenly spread the statistics mislead, and a plan may change: compare EXPLAIN of \
                       the statements with lists first."
                    .into(),
                undo: format!("SET GLOBAL eq_range_index_dive_limit = {limit:.0}, and reconnect"),
            }))
            .remedies(behind)
            .remedy(Remedy {
                statement: "FORCE INDEX (...) on the statement that spindoctor indexes names; with --try it measures what that brings"
                    .into(),
                why: "Since MySQL 8.0.3 a simple statement with one forced index dives into nothing; on other servers it \
                      dives into that index alone."
                    .into(),
                dynamic: true,
                risk: "The index stays forced when a better one comes, or the data changes.".into(),
                undo: "The statement as it was.".into(),
            })
            .finding(),
    ))
}

/// The statement that was seen most in dives, or, where the stacks do not know the statements, at work; and where that was seen.
fn statement(window: &Window) -> Option<(String, &'static str)> {
    let diving = window.profile.value().map(Estimating::from_profile);
    if let Some(text) = diving.as_ref().and_then(Estimating::most_diving) {
        return Some((spindoctor_sql::server_digest(text).to_owned(), "stacks"));
    }
    let most = SeenMost::from_window(window, SeenMost::NAMED_RATIO)?;
    Some((most.statement, "thread list"))
}

/// Share of the sessions at work that wait in a dive for a page from disk.
fn reading_share(window: &Window) -> f64 {
    let Some(profile) = window.profile.value() else { return 0.0 };
    let (mut at_work, mut reading) = (0u32, 0u32);
    for one in &profile.observations {
        let (mut is_statement, mut is_dive) = (false, false);
        for name in spin_samples::names(profile, one) {
            is_statement |= name == "dispatch_command";
            is_dive |= DIVES.contains(&name);
        }
        at_work += u32::from(is_statement);
        reading += u32::from(is_statement && is_dive && one.state == ThreadState::DiskRead);
    }
    f64::from(reading) / f64::from(at_work.max(1))
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, session};

    const DIVE: &[&str] =
        &["btr_cur_search_to_nth_level", "btr_estimate_n_rows_in_range_low", "ha_innobase::records_in_range"];

    fn diving(share: f64, limit: &str) -> Build {
        Build::busy("8.0.36").variable("eq_range_index_dive_limit", limit).running(1000, share, DIVE)
    }

    pub(crate) fn fires() -> Window {
        diving(0.3, "200").window()
    }

    /// What short range queries take.
    pub(crate) fn near_miss() -> Window {
        diving(0.06, "200").window()
    }

    pub(crate) fn missing() -> Window {
        diving(0.3, "200").without_profile().window()
    }

    fn remedies(window: &Window) -> Vec<String> {
        let Outcome::Fired(finding) = evaluate(window) else { panic!() };
        finding.remedies.into_iter().map(|remedy| remedy.statement).collect()
    }

    #[test]
    fn a_low_limit_is_not_lowered_and_no_limit_is() {
        assert_eq!(remedies(&diving(0.3, "10").window()).len(), 1);
        assert!(
            remedies(&diving(0.3, "0").window())[0].starts_with("SET GLOBAL eq_range_index_dive_limit = 10")
        );
    }

    #[test]
    fn single_values_are_looked_up_whatever_the_limit_is() {
        let of = |statement: &'static str| {
            let sessions =
                move |_| (20..26).map(|id| session(id, "Query", "statistics", statement)).collect();
            remedies(&diving(0.3, "200").sessions(sessions).window())
        };
        assert_eq!(of("SELECT * FROM parts WHERE v = 7").len(), 1);
        assert_eq!(of("SELECT * FROM parts WHERE v IN (7, 8, 9)").len(), 2);
    }

    /// No condition on the partition column: the value is looked up in hundreds of trees.
    #[test]
    fn dives_into_partitions_are_named_with_the_statement_and_the_condition_comes_first() {
        const IN_PARTITIONS: &[&str] = &[
            "btr_cur_search_to_nth_level",
            "ha_innopart::records_in_range",
            "handler::multi_range_read_info_const",
            "check_quick_select",
        ];
        let of = |frames: &[&str], statement: &'static str| {
            let sessions =
                move |_| (20..26).map(|id| session(id, "Query", "statistics", statement)).collect();
            let build = Build::busy("8.0.36").variable("eq_range_index_dive_limit", "200").sessions(sessions);
            let Outcome::Fired(finding) = evaluate(&build.running(1000, 0.5, frames).window()) else {
                panic!()
            };
            finding
        };
        let single = "SELECT id, note FROM events WHERE sensor = 7";
        let finding = of(IN_PARTITIONS, single);
        assert_eq!(
            finding.headline,
            "Estimates of the optimizer take 50 % of the CPU: index dives, most likely in each partition of the table; seen most: SELECT \
             id, note FROM events WHERE sensor = ?"
        );
        let begins: Vec<&str> = finding.remedies.iter().map(|one| &one.statement[..11]).collect();
        assert_eq!(begins, ["EXPLAIN SEL", "Fewer and l", "FORCE INDEX"]);
        assert!(
            finding.remedies[0].statement.ends_with("partitioned by"),
            "{}",
            finding.remedies[0].statement
        );
        assert!(finding.evidence.iter().any(|one| one.reading.starts_with("CPU in partitions")));
        // A list of values is the first reason.
        let finding = of(IN_PARTITIONS, "SELECT id FROM events WHERE sensor IN (7, 8, 9)");
        assert!(finding.remedies[0].statement.starts_with("SET GLOBAL eq_range"), "{:?}", finding.remedies);
        let finding = of(DIVE, single);
        assert!(!finding.headline.contains("partition"), "{}", finding.headline);
    }

    #[test]
    fn pages_that_estimates_read_from_disk_are_seen_in_stacks() {
        const READS: &[&str] =
            &["pread64", "buf_page_get_gen", "ha_innobase::records_in_range", "dispatch_command"];
        let window = diving(0.02, "200").snapshots(&[(6, ThreadState::DiskRead, READS)]).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        assert!(finding.headline.starts_with("100 % of the sessions at work"), "{}", finding.headline);
    }
}
