//! What the formats of a diagnosis share.

use spindoctor_model::{Diagnosis, Finding, Interruption, NotExamined, Profile, Remedy, Root};
use spindoctor_profile::{WaitedLatch, latches};
use spindoctor_rules::causes::server_stopped;

use spindoctor_page::number;

/// `2 findings`, `1 finding`, `no finding`; without one, `interrupted` where not all was seen.
pub fn findings_counted(diagnosis: &Diagnosis) -> String {
    match diagnosis.findings.len() {
        0 if diagnosis.interrupted.is_some() => "interrupted".to_owned(),
        0 => "no finding".to_owned(),
        count => number::counted(count as u64, "finding", "findings"),
    }
}

/// What cut the window short and no finding explains: the diagnosis is of a part only.
pub fn unexplained_interruption(diagnosis: &Diagnosis) -> Option<&Interruption> {
    let explained = diagnosis.findings.iter().any(|finding| finding.cause == server_stopped::CAUSE.name);
    diagnosis.interrupted.as_ref().filter(|_| !explained)
}

/// The command that tries on this server what a finding advises to set: `spindoctor tune --apply --only NAME=VALUE`. None
/// where nothing of it is a variable that may be tried.
pub fn proof(finding: &Finding) -> Option<String> {
    let assignments = finding.remedies.iter().filter_map(|remedy| {
        let (name, value) = remedy.statement.strip_prefix("SET GLOBAL ")?.split_once(" = ")?;
        let variable = spindoctor_tune::variables::find(name).ok()?;
        let is_plain = value.chars().all(|c| c.is_ascii_alphanumeric());
        (remedy.dynamic && is_plain).then(|| format!(" --only {}={value}", variable.name))
    });
    let assignments: String = assignments.collect();
    (!assignments.is_empty()).then(|| format!("spindoctor tune --apply{assignments}"))
}

/// The verdict where no cause was found and the sessions' time is not accounted for: they may wait for anything.
pub const WITHOUT_ACCOUNT: &str =
    "No known cause found; session time could not be read, so this does not prove that all is well.";

/// How long the server was seen, seconds.
pub fn seen_s(diagnosis: &Diagnosis) -> f64 {
    diagnosis.interrupted.as_ref().map_or(diagnosis.window.seconds, |interrupted| interrupted.at_s)
}

/// Who the root thread is: `connection 12, thread 4351, user app`.
pub fn root_named(root: &Root) -> String {
    let mut parts = Vec::new();
    if let Some(connection) = root.connection_id {
        parts.push(format!("connection {connection}"));
    }
    if let Some(thread) = root.thread_os_id {
        parts.push(format!("thread {thread}"));
    }
    if !root.user.is_empty() {
        parts.push(format!("user {}", root.user));
    }
    if parts.is_empty() { "a thread that the server does not name".to_owned() } else { parts.join(", ") }
}

/// How to undo a remedy. Where the remedy does not say: that it is not possible, for a connection or a statement that was ended;
/// None for anything else.
pub fn undo(remedy: &Remedy) -> Option<&str> {
    let begins = |words: &[&str]| words.iter().any(|begin| remedy.statement.starts_with(begin));
    match remedy.undo.as_str() {
        "" if begins(&["KILL QUERY ", "CALL mysql.rds_kill_query("]) => {
            Some("not possible: the client has to run the statement again")
        }
        "" if begins(&["KILL ", "CALL mysql.rds_kill("]) => {
            Some("not possible: the client has to connect and do its work again")
        }
        "" => None,
        undo => Some(undo),
    }
}

/// `100 snapshots; of 1250 CPU samples 74 % were spinning: commits 68 %, redo log threads 6 %`
pub fn stacks_text(diagnosis: &Diagnosis) -> Option<String> {
    let profile = diagnosis.profile?;
    let snapshots = number::counted(profile.snapshots, "snapshot", "snapshots");
    let samples = number::counted(profile.cpu_samples, "CPU sample", "CPU samples");
    let Some(spin) = profile.spin else { return Some(format!("{snapshots}, {samples}")) };
    let text: Vec<String> = spin
        .named()
        .into_iter()
        .filter(|(_, share)| *share >= SPIN_SHOWN)
        .map(|(whose, share)| format!("{whose} {}", number::percent(share)))
        .collect();
    Some(match text.is_empty() {
        true => format!("{snapshots}; of {samples} {} were spinning", number::percent(spin.all())),
        false => format!(
            "{snapshots}; of {samples} {} were spinning: {}",
            number::percent(spin.all()),
            text.join(", ")
        ),
    })
}

/// Latches that are named in a diagnosis.
const LATCHES: usize = 3;
/// Threads asleep and CPUs that spin for one of them: from a tenth on. Every busy server has less of some.
const LATCH_SHOWN: f64 = 0.1;

/// `rollback segment 2.00 threads asleep, 0.60 CPUs spinning; page 0.40 threads asleep`; none where no latch is waited for as much.
pub fn latches_text(profile: &Profile) -> Option<String> {
    let text = |latch: &WaitedLatch| {
        let asleep = latch.threads_asleep.filter(|threads| *threads > 0.0);
        let spinning = latch.cpus_spinning.filter(|cpus| *cpus > 0.0);
        let parts = [
            asleep.map(|threads| format!("{threads:.2} threads asleep")),
            spinning.map(|cpus| format!("{cpus:.2} CPUs spinning")),
        ];
        format!("{} {}", latch.latch, parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    };
    let latches = latches(profile);
    let named: Vec<String> =
        latches.iter().filter(|latch| latch.cost() >= LATCH_SHOWN).take(LATCHES).map(text).collect();
    (!named.is_empty()).then(|| named.join("; "))
}

/// The least share of the CPU samples, 0 to 1, that is shown on its own.
pub const SPIN_SHOWN: f64 = 0.005;

/// The other findings of the diagnosis that this one explains.
pub fn explained_here<'a>(finding: &'a Finding, diagnosis: &Diagnosis) -> Vec<&'a str> {
    let is_found = |cause: &&str| diagnosis.findings.iter().any(|other| other.cause == *cause);
    finding.explains.iter().map(String::as_str).filter(is_found).collect()
}

/// Causes that were not examined for one and the same reason, in the order of the first of each.
pub struct NotExaminedTogether<'a> {
    pub causes: Vec<&'a str>,
    pub because: &'a str,
    pub unlock: &'a str,
}

pub fn not_examined_together(not_examined: &[NotExamined]) -> Vec<NotExaminedTogether<'_>> {
    let mut together: Vec<NotExaminedTogether<'_>> = Vec::new();
    for missing in not_examined {
        let same = |known: &&mut NotExaminedTogether<'_>| {
            known.because == missing.because && known.unlock == missing.unlock
        };
        match together.iter_mut().find(same) {
            Some(known) => known.causes.push(&missing.cause),
            None => together.push(NotExaminedTogether {
                causes: vec![&missing.cause],
                because: &missing.because,
                unlock: &missing.unlock,
            }),
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Remedy;

    use super::*;

    use crate::doctor::examples;

    #[test]
    fn what_can_be_tried_is_proved_with_one_command_and_nothing_else_gets_one() {
        let mut finding = examples::suffering().findings.swap_remove(0);
        let set =
            |statement: &str| Remedy { statement: statement.into(), dynamic: true, ..Remedy::default() };
        finding.remedies = vec![
            set("SET GLOBAL innodb_spin_wait_delay = 6"),
            set("SET GLOBAL innodb_spin_wait_pause_multiplier = 50"),
            set("SET GLOBAL read_only = 1"),
            set("KILL 12"),
        ];
        assert_eq!(
            proof(&finding).unwrap(),
            "spindoctor tune --apply --only innodb_spin_wait_delay=6 --only innodb_spin_wait_pause_multiplier=50"
        );
        finding.remedies.drain(..2);
        assert_eq!(proof(&finding), None);
    }

    #[test]
    fn latches_that_are_waited_for_are_named_with_what_they_cost() {
        use spindoctor_profile::examples as profiles;
        let text = latches_text(&profiles::contended());
        assert_eq!(text.as_deref(), Some("rollback segment 1.00 threads asleep; page 0.50 threads asleep"));
        assert_eq!(latches_text(&profiles::busy()), None);
    }

    #[test]
    fn what_cannot_be_taken_back_says_what_is_gone() {
        let of = |statement: &str| {
            undo(&Remedy { statement: statement.into(), ..Remedy::default() }).map(str::to_owned)
        };
        assert!(of("KILL 12").is_some_and(|undo| undo.contains("has to connect")));
        assert!(of("KILL QUERY 12").is_some_and(|undo| undo.contains("run the statement again")));
        assert_eq!(of("CALL mysql.rds_kill(12)"), of("KILL 12"));
        assert_eq!(of("CALL mysql.rds_kill_query(12)"), of("KILL QUERY 12"));
        assert_eq!(of("EXPLAIN SELECT 1"), None);
    }
}
