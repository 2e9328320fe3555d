//! Servers as they come, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_fleet::peers::Peers;
use spindoctor_model::{Finding, ServerVersion, Window};
use spindoctor_rules::causes::unnamed_wait;
use spindoctor_rules::spin_fit::{Misfit, misfits};
use spindoctor_rules::{CAUSES, diagnose};

use super::cpus::Cpus;
use super::view::{FleetDiagnosis, Trouble, Unexamined};

/// Findings of one server that are kept, the costliest first: for a server with more, `spindoctor doctor` shows all.
const KEPT: usize = 3;

/// The evidence of `unnamed-wait` that rests on nothing but how long our own questions took.
const OWN_QUESTIONS: &str = "own questions that took a second or more";

/// Where more than this share of all servers answers late, it is who asks them: servers do not fall ill together. A few that are asked
/// may be on one host, so that there have to be [`MANY`]. Chosen.
const LATE_TOGETHER: f64 = 0.25;

/// From this share of its CPUs on, the machine that asks may have had none for what it was answered: what `unnamed-wait` holds
/// against a server's own host, too. Chosen.
const NO_CPU_TO_SPARE: f64 = 0.9;

/// So many servers at the least that answer late together. Chosen.
const MANY: usize = 10;

/// Why causes could not be examined, and what would unlock it.
type Reason = (String, String);

/// Servers on their way into a diagnosis.
#[derive(Debug, Default)]
pub struct Gathering {
    judged: usize,
    found: BTreeMap<String, Vec<(usize, Finding)>>,
    versions: BTreeMap<String, Vec<usize>>,
    peers: Peers,
    misfits: BTreeMap<Misfit, Vec<usize>>,
    cpus: Cpus,
    unexamined: BTreeMap<Reason, (BTreeSet<String>, BTreeSet<usize>)>,
    queries: u64,
    busy_ms: f64,
}

impl Gathering {
    /// Judges a server's window. Servers of different roles are no peers.
    pub fn add(&mut self, server: usize, role: Option<&str>, window: &Window) {
        self.judged += 1;
        self.queries += window.cost.server_queries;
        self.busy_ms += window.cost.server_busy_ms;
        let version = window.server.version;
        let named = version.map_or_else(|| window.server.version_text.clone(), |version| version.to_string());
        self.versions.entry(named).or_default().push(server);
        if let Some(variables) = window.latest(|s| &s.server.variables) {
            self.peers.add(server, &peers(version, role), variables);
        }
        for misfit in misfits(window) {
            self.misfits.entry(misfit).or_default().push(server);
        }
        self.cpus.add(server, window);
        self.judge(server, window);
    }

    /// Judges a server that there is no session of, where that itself is a reading. It counts as one that did not answer.
    pub fn refused(&mut self, server: usize, window: &Window) {
        for finding in diagnose(window).findings.into_iter().take(KEPT) {
            self.keep(server, finding);
        }
    }

    fn judge(&mut self, server: usize, window: &Window) {
        let diagnosis = diagnose(window);
        for finding in diagnosis.findings.into_iter().take(KEPT) {
            self.keep(server, finding);
        }
        for missing in diagnosis.not_examined {
            let (causes, servers) = self.unexamined.entry((missing.because, missing.unlock)).or_default();
            causes.insert(missing.cause);
            servers.insert(server);
        }
    }

    /// Keeps what the report shows of a finding.
    fn keep(&mut self, server: usize, mut finding: Finding) {
        finding.evidence.iter_mut().for_each(|evidence| evidence.series = Vec::new());
        finding.references = Vec::new();
        self.found.entry(finding.cause.clone()).or_default().push((server, finding));
    }

    /// Takes out what late answers alone say, where they may be late by who asks: many together, or on a machine whose CPUs were
    /// busy for this share of the time.
    fn leave_out_our_own_delay(&mut self, own_cpus_busy: Option<f64>) {
        let is_late = |finding: &Finding| {
            finding.cause == unnamed_wait::CAUSE.name
                && finding.evidence.iter().any(|evidence| evidence.reading == OWN_QUESTIONS)
        };
        let Some(found) = self.found.get_mut(unnamed_wait::CAUSE.name) else { return };
        let late: BTreeSet<usize> =
            found.iter().filter(|(_, finding)| is_late(finding)).map(|(server, _)| *server).collect();
        let together = late.len() >= MANY && late.len() as f64 > LATE_TOGETHER * self.judged as f64;
        let busy = own_cpus_busy.filter(|busy| *busy >= NO_CPU_TO_SPARE && !late.is_empty());
        let why = match busy {
            Some(busy) => format!(
                "this machine, which asks them all at once, had its CPUs busy for {:.0} % of the time",
                busy * 100.0
            ),
            None if together => {
                "together: it was this machine, which asks them all at once, or the network from it"
                    .to_owned()
            }
            None => return,
        };
        found.retain(|(_, finding)| !is_late(finding));
        if found.is_empty() {
            self.found.remove(unnamed_wait::CAUSE.name);
        }
        let because = format!("{} of {} servers answered late, {why}", late.len(), self.judged);
        let unlock = "--connections 100, or a machine with CPU to spare".to_owned();
        let causes = BTreeSet::from([unnamed_wait::CAUSE.name.to_owned()]);
        self.unexamined.insert((because, unlock), (causes, late));
    }

    /// Puts all in order. `own_cpus_busy` is the share of the time in which the CPUs of the machine that asked were busy.
    pub fn finish(mut self, own_cpus_busy: Option<f64>) -> FleetDiagnosis {
        self.leave_out_our_own_delay(own_cpus_busy);
        let (cpus, misfits) = self.cpus.finish();
        for (misfit, server) in misfits {
            self.misfits.entry(misfit).or_default().push(server);
        }
        let mut troubles: Vec<Trouble> = self
            .found
            .into_iter()
            .map(|(cause, mut found)| {
                found.sort_by(|a, b| b.1.score.total_cmp(&a.1.score).then(a.0.cmp(&b.0)));
                Trouble { cause, found }
            })
            .collect();
        troubles.sort_by(|a, b| b.worst().total_cmp(&a.worst()).then(a.cause.cmp(&b.cause)));
        let place = |cause: &String| CAUSES.iter().position(|known| known.name == cause);
        let mut unexamined: Vec<Unexamined> = self
            .unexamined
            .into_iter()
            .map(|((because, unlock), (causes, servers))| {
                let mut causes: Vec<String> = causes.into_iter().collect();
                causes.sort_by_key(place);
                Unexamined { because, unlock, causes, servers: servers.into_iter().collect() }
            })
            .collect();
        unexamined.sort_by_key(|missing| std::cmp::Reverse(missing.servers.len()));
        FleetDiagnosis {
            judged: self.judged,
            troubles,
            versions: frequent_first(self.versions),
            settings: self.peers.finish(),
            cpus,
            misfits: frequent_first(self.misfits),
            unexamined,
            queries: self.queries,
            busy_ms: self.busy_ms,
        }
    }
}

/// Whose settings should be alike: a release series has one set of defaults, a role one purpose.
fn peers(version: Option<ServerVersion>, role: Option<&str>) -> String {
    let series = version.map_or_else(
        || "unknown".to_owned(),
        |version| format!("{} {}.{}", version.flavor, version.major, version.minor),
    );
    match role {
        Some(role) => format!("{series}, {role}"),
        None => series,
    }
}

fn frequent_first<T>(servers: BTreeMap<T, Vec<usize>>) -> Vec<(T, Vec<usize>)> {
    let mut all: Vec<(T, Vec<usize>)> =
        servers.into_iter().map(|(what, servers)| (what, sorted(servers))).collect();
    // Those as frequent stay in their own order.
    all.sort_by_key(|(_, servers)| std::cmp::Reverse(servers.len()));
    all
}

/// They come as they answer.
fn sorted(mut servers: Vec<usize>) -> Vec<usize> {
    servers.sort_unstable();
    servers
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ServerThread;
    use spindoctor_model::{Reading, Severity};

    use super::*;

    use crate::fleet::doctor::examples;

    #[test]
    fn the_costliest_server_comes_first_and_one_cause_is_shown_together() {
        let diagnosis = examples::fleet();
        let order: Vec<(&str, Vec<usize>)> = diagnosis
            .troubles
            .iter()
            .map(|trouble| {
                (trouble.cause.as_str(), trouble.found.iter().map(|(server, _)| *server).collect())
            })
            .collect();
        assert_eq!(order, [("connections-exhausted", vec![5, 2, 4])]);
        assert_eq!(diagnosis.troubles[0].severity(), Severity::Critical);
        assert_eq!((diagnosis.judged, diagnosis.in_trouble()), (5, 3));
    }

    #[test]
    fn versions_and_settings_are_compared_and_the_tag_shows_the_cpus() {
        let diagnosis = examples::fleet();
        assert_eq!(
            diagnosis.versions,
            [("MySQL 8.0.36".to_owned(), vec![0, 2, 3, 4]), ("MySQL 8.0.35".to_owned(), vec![1])]
        );
        let odd: Vec<(&str, Vec<usize>)> = diagnosis
            .settings
            .odd
            .iter()
            .map(|odd| (odd.setting.as_str(), odd.servers().collect()))
            .collect();
        assert_eq!(odd, [("sync_binlog", vec![3])]);
        let misfits: Vec<(&str, &str, &[usize])> = diagnosis
            .misfits
            .iter()
            .map(|(misfit, servers)| (misfit.variable, misfit.fits.as_str(), servers.as_slice()))
            .collect();
        assert_eq!(misfits, [("innodb_log_writer_threads", "OFF", [0].as_slice())]);
    }

    /// So many servers, of which so many answered late to a machine whose CPUs were busy for that share.
    fn answered(servers: usize, late: usize, own_cpus_busy: f64) -> FleetDiagnosis {
        let mut gathering = Gathering::default();
        for server in 0..servers {
            let mut window = examples::window("8.0.36", 10.0, "1");
            for sample in &mut window.samples {
                let idle = ServerThread {
                    connection_id: Some(20),
                    is_connection: true,
                    command: "Sleep".to_owned(),
                    ..ServerThread::default()
                };
                let took_ms = if server < late { 1_600.0 } else { 2.0 };
                sample.server.threads = Reading::Available { at_s: sample.at_s, took_ms, value: vec![idle] };
            }
            gathering.add(server, None, &window);
        }
        gathering.finish(Some(own_cpus_busy))
    }

    #[test]
    fn servers_that_answer_late_all_together_are_not_what_is_late() {
        let late = |diagnosis: &FleetDiagnosis| {
            let trouble = diagnosis.troubles.iter().find(|trouble| trouble.cause == unnamed_wait::CAUSE.name);
            trouble.map_or(0, |trouble| trouble.found.len())
        };
        assert_eq!(
            (late(&answered(40, 0, 0.5)), late(&answered(40, 2, 0.5))),
            (0, 2),
            "a server that is late is named"
        );
        assert_eq!(late(&answered(3, 3, 0.5)), 3, "three may share a host");
        assert_eq!(late(&answered(40, 15, 0.5)), 0, "fifteen of forty do not fall ill together");
        let busy = answered(40, 2, 0.95);
        assert_eq!(late(&busy), 0, "who asks may have been late itself");
        assert!(
            busy.unexamined.iter().any(|missing| missing.because.contains("CPUs busy for 95 %")),
            "{:?}",
            busy.unexamined
        );
        let none = answered(40, 0, 0.95);
        assert!(
            !none.unexamined.iter().any(|missing| missing.because.contains("late")),
            "{:?}",
            none.unexamined
        );
        let all = answered(40, 39, 0.5);
        assert_eq!(late(&all), 0);
        let ours =
            all.unexamined.iter().find(|missing| missing.because.contains("39 of 40 servers answered late"));
        let ours = ours.unwrap_or_else(|| panic!("{:?}", all.unexamined));
        assert_eq!(
            (ours.servers.len(), ours.causes.as_slice()),
            (39, ["unnamed-wait".to_owned()].as_slice())
        );
        assert!(ours.unlock.contains("--connections"), "{ours:?}");
    }

    #[test]
    fn what_could_not_be_examined_is_shown_by_its_reason() {
        let diagnosis = examples::fleet();
        let is_host = |missing: &&Unexamined| missing.unlock.contains("spindoctor doctor");
        let host = diagnosis.unexamined.iter().find(is_host).unwrap();
        assert_eq!(host.servers, [0, 1, 2, 3, 4]);
        assert!(host.causes.iter().any(|cause| cause == "cpu-throttled"), "{host:?}");
    }
}
