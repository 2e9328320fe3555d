//! The statement that is at work in the most lists of threads.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Remedy, Window, number};
use spindoctor_sql::{Mode, Token, lex};

use crate::time_model::InnodbLocks;
use crate::{comes_back, sessions};

/// Part of the window through which one execution must go on, to be one that runs on: half, so that it began before it or takes
/// most of it. Chosen, not derived.
const RUNS_ON_RATIO: f64 = 0.5;

/// Accounts that are named as those who run a statement.
const USERS: usize = 3;

/// Share of what the connections of a statement within a stored program were seen with besides, from which on that is what calls it.
const CALLS_RATIO: f64 = 0.5;

/// Statements without literals, with the list and the session of each sighting.
type Sightings<'w> = BTreeMap<String, Vec<(usize, &'w ServerThread)>>;

/// A statement that is at work in many samples.
pub(crate) struct SeenMost<'w> {
    /// Its text, literals taken out.
    pub(crate) statement: String,
    /// The session whose execution of it has gone on longest, where that is half of the window.
    pub(crate) longest: Option<&'w ServerThread>,
    /// That one, where no other session was seen to run the statement.
    pub(crate) runs_on: Option<&'w ServerThread>,
    /// Who runs it.
    users: BTreeSet<&'w str>,
    /// True where a connection was seen under two names: a stored program runs under that of its definer (MariaDB).
    has_definer: bool,
    /// How many sessions run it in each list, where all are runs of an event of the scheduler, and overlap.
    event_runs: Option<Series>,
}

impl<'w> SeenMost<'w> {
    /// Share of the samples in which a statement must be seen to be named.
    pub(crate) const NAMED_RATIO: f64 = 0.25;

    /// The one that is at work in the most samples, and in that share at least. Who waits for a lock does not read meanwhile.
    pub(crate) fn from_window(window: &'w Window, ratio: f64) -> Option<Self> {
        Self::choose(window, ratio, |seen| seen)
    }

    /// The same, where statements within stored programs count as the statement that calls these, if that was seen.
    pub(crate) fn caller_from_window(window: &'w Window, ratio: f64) -> Option<Self> {
        Self::choose(window, ratio, by_caller)
    }

    fn choose(
        window: &'w Window,
        ratio: f64,
        group: impl FnOnce(Sightings<'w>) -> Sightings<'w>,
    ) -> Option<Self> {
        let lists: Vec<_> = window
            .samples
            .iter()
            .filter_map(|sample| {
                Some((sample.at_s, InnodbLocks::from_sample(sample), sample.server.threads.value()?))
            })
            .collect();
        let mut seen = Sightings::new();
        for (at, (_, locks, threads)) in lists.iter().enumerate() {
            let waits = |thread: &ServerThread| {
                thread.state.to_ascii_lowercase().starts_with("waiting")
                    || thread.connection_id.is_some_and(|id| locks.wanted_by(id).is_some())
            };
            let running = sessions::at_work(threads).filter(|thread| !waits(thread));
            for thread in running {
                let text =
                    thread.statement.as_deref().filter(|text| !spindoctor_sql::is_about_the_server("", text));
                let Some(text) = text else { continue };
                seen.entry(spindoctor_sql::digest(text)).or_default().push((at, thread));
            }
        }
        let samples = |threads: &[(usize, &ServerThread)]| {
            threads.iter().map(|(at, _)| at).collect::<BTreeSet<_>>().len()
        };
        let (statement, threads) = group(seen).into_iter().max_by_key(|(_, threads)| samples(threads))?;
        let seen = samples(&threads);
        let (_, longest) = *threads.iter().max_by(|(_, a), (_, b)| a.time_s.total_cmp(&b.time_s))?;
        let is_alone = threads.iter().all(|(_, thread)| thread.connection_id == longest.connection_id);
        let longest = (longest.time_s >= RUNS_ON_RATIO * window.seconds()).then_some(longest);
        let runs_on = longest.filter(|_| is_alone);
        let of_list =
            |at: usize| threads.iter().filter(move |(seen_at, _)| *seen_at == at).map(|(_, thread)| *thread);
        let are_runs = threads.iter().all(|(_, thread)| comes_back::is_run_of_event(thread));
        let overlap = are_runs && (0..lists.len()).any(|at| comes_back::overlap(of_list(at)));
        let event_runs = overlap.then(|| -> Series {
            let runs = lists.iter().enumerate();
            runs.map(|(at, (at_s, ..))| (*at_s, of_list(at).count() as f64)).collect()
        });
        let sightings = threads.iter().filter(|(_, thread)| !thread.user.is_empty());
        let names: BTreeSet<(Option<u64>, &str)> =
            sightings.map(|(_, thread)| (thread.connection_id, thread.user.as_str())).collect();
        let connections: BTreeSet<Option<u64>> = names.iter().map(|(id, _)| *id).collect();
        let has_definer = names.len() > connections.len();
        let users = names.into_iter().map(|(_, user)| user).collect();
        (seen >= 2 && seen as f64 >= ratio * lists.len() as f64).then_some(Self {
            statement,
            longest,
            runs_on,
            users,
            has_definer,
            event_runs,
        })
    }

    /// Who runs it, where these are few.
    pub(crate) fn who(&self) -> Option<Evidence> {
        let few = (1..=USERS).contains(&self.users.len());
        let users: Vec<&str> = self.users.iter().copied().collect();
        let definer = if self.has_definer { " (a stored program is listed under its definer)" } else { "" };
        few.then(|| Evidence::new("who runs it", format!("{}{definer}", users.join(", ")), "", "thread list"))
    }

    /// True where those who run it are runs of an event that overlap.
    pub(crate) fn is_of_event(&self) -> bool {
        self.event_runs.is_some()
    }

    /// Behind the statement in a headline: that runs of an event overlap.
    pub(crate) fn in_runs_of_event(&self) -> &'static str {
        if self.is_of_event() { ", in runs of an event of the scheduler" } else { "" }
    }

    /// A sentence about runs of an event that overlap.
    pub(crate) fn overlap(&self) -> Option<String> {
        let runs = self.event_runs.as_ref()?;
        let ((_, first), (_, last)) = (runs.first()?, runs.last()?);
        Some(format!(
            " Its sessions are runs of an event of the scheduler, which starts one though the last has not ended: {} at once in the first \
             list of threads, {} in the last.",
            number::plain(*first),
            number::plain(*last)
        ))
    }

    /// How many runs of an event there are at once.
    pub(crate) fn runs_at_once(&self) -> Option<Evidence> {
        let runs = self.event_runs.clone()?;
        let most = runs.iter().map(|&(_, at_once)| at_once).fold(0.0, f64::max);
        Some(Evidence::new("runs of an event at once", most, "", "thread list").expected("< 2").series(runs))
    }

    /// What keeps the scheduler from starting the next run: who only ends one has the next at once.
    pub(crate) fn disable_event(&self) -> Option<Remedy> {
        self.is_of_event().then(|| comes_back::disable(&self.statement))
    }
}

/// Statements within stored programs counted as those that call them. The list of threads shows whichever a connection runs at that
/// moment, so that it is seen now with the one and now with the other.
fn by_caller(seen: Sightings<'_>) -> Sightings<'_> {
    let (within, mut callers): (Sightings<'_>, Sightings<'_>) =
        seen.into_iter().partition(|(text, _)| is_within_program(text));
    let mut alone = Sightings::new();
    for (text, threads) in within {
        let connections: BTreeSet<u64> =
            threads.iter().filter_map(|(_, thread)| thread.connection_id).collect();
        let is_of_them =
            |thread: &ServerThread| thread.connection_id.is_some_and(|id| connections.contains(&id));
        let shared: Vec<(&String, usize)> = callers
            .iter()
            .map(|(caller, seen)| (caller, seen.iter().filter(|(_, thread)| is_of_them(thread)).count()))
            .collect();
        let all: usize = shared.iter().map(|(_, count)| count).sum();
        let caller = shared.into_iter().max_by_key(|(_, count)| *count);
        let caller = caller.filter(|(_, count)| *count > 0 && *count as f64 >= CALLS_RATIO * all as f64);
        match caller.map(|(caller, _)| caller.clone()) {
            Some(caller) => callers.entry(caller).or_default().extend(threads),
            None => {
                alone.insert(text, threads);
            }
        }
    }
    callers.extend(alone);
    callers
}

/// True for a statement within a stored program: the server writes its variables as NAME_CONST(...) (sql/sp_head.cc, subst_spvars), and
/// only there SELECT ... INTO has a name without `@`.
pub(crate) fn is_within_program(statement: &str) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    let selects = code.first().is_some_and(|first| first.is("select"));
    code.windows(2).any(|two| {
        let is_constant = two[0].is("name_const") && two[1].is_sign("(");
        let is_variable =
            two[1].is_name() && !two[1].text.starts_with('@') && !two[1].is_one_of(&["outfile", "dumpfile"]);
        is_constant || selects && two[0].is("into") && is_variable
    })
}

#[cfg(test)]
mod tests {
    use super::{SeenMost, is_within_program};
    use crate::testing::{Build, session};

    const SUM: &str = "SELECT SUM(n * price_of(article, 100)) FROM baskets WHERE customer = 7";
    const WITHIN: &str = "SELECT price INTO p FROM prices WHERE article = NAME_CONST('a', 7)";

    #[test]
    fn a_statement_within_a_stored_program_is_known_by_its_variables() {
        assert!(is_within_program(WITHIN));
        assert!(is_within_program("SELECT price INTO p FROM prices WHERE article = a"));
        assert!(is_within_program("UPDATE t SET n = NAME_CONST(...)"));
        for other in [
            SUM,
            "SELECT price INTO @p FROM prices",
            "SELECT price INTO OUTFILE '/tmp/a' FROM prices",
            "INSERT INTO prices SELECT * FROM old",
            "SELECT name_const FROM t",
        ] {
            assert!(!is_within_program(other), "{other}");
        }
    }

    #[test]
    fn what_runs_within_a_stored_program_counts_as_its_caller_where_that_was_seen() {
        let window = |others: &'static str| {
            let sessions = move |second: usize| {
                let text = move |id: u64| match (second as u64 + id) % 4 {
                    0 => others,
                    _ => WITHIN,
                };
                (20..22).map(|id| session(id, "Query", "executing", text(id))).collect()
            };
            Build::busy("10.11.18-MariaDB").sessions(sessions).window()
        };
        let named = |window: spindoctor_model::Window| {
            SeenMost::caller_from_window(&window, 0.9).map(|most| most.statement)
        };
        let called = named(window(SUM)).unwrap();
        assert_eq!(called, spindoctor_sql::digest(SUM));
        let alone = named(window(WITHIN)).unwrap();
        assert_eq!(alone, spindoctor_sql::digest(WITHIN));
        let window = window(SUM);
        let most = SeenMost::from_window(&window, 0.9).unwrap();
        assert_eq!(most.statement, spindoctor_sql::digest(WITHIN));
        assert_eq!(most.who().unwrap().value, "app".into());
    }
}
