//! The governor: the spin settings that a server should have on its present CPUs.
//!
//! In: readings of the host and the server's variables, once per second. Out: the changes that are due, each with its
//! reason; and notes. Pure: it reads nothing, sets nothing and has no clock.
//!
//! The governor keeps two things right, and changes each only as much as the change of the CPUs requires:
//!
//! - `innodb_log_spin_cpu_pct_hwm`: the mark at which commits stop spinning means half of the CPUs that the server is
//!   granted, not of those that it counts ([`CommitSpin`]).
//! - the time that a latch is spun on: as long as it was meant to be, however long one PAUSE takes on this CPU
//!   ([`LatchSpin`]). Where somebody has chosen settings other than the defaults, the spin time is kept as it was when
//!   the governor started.
//!
//! The governor leaves a variable alone once somebody else has set it.

use spindoctor_model::host::PauseLatency;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{HostSample, ServerVersion, Unavailable};
use spindoctor_rules::commit_spin::{CommitSpin, INTENDED_PCT};
use spindoctor_rules::latch_spin::LatchSpin;

use crate::variables::{self, Variable};

/// The variable by which it keeps the commits' spin right.
pub const COMMIT_MARK: &str = HWM;

const HWM: &str = "innodb_log_spin_cpu_pct_hwm";
const LWM: &str = "innodb_log_spin_cpu_abs_lwm";
const WRITER_THREADS: &str = "innodb_log_writer_threads";
const DELAY: &str = "innodb_spin_wait_delay";
const MULTIPLIER: &str = "innodb_spin_wait_pause_multiplier";
const LOOPS: &str = "innodb_sync_spin_loops";

/// The variables that it looks at: those that it sets, and those that these depend on.
pub const LOOKS_AT: [&str; 6] = [HWM, LWM, WRITER_THREADS, DELAY, MULTIPLIER, LOOPS];

/// A full spin may last this many times as long as it should, or a part as long, before something is done: one CPU's
/// PAUSE takes longer at half its frequency, and the models differ by a factor of ten.
const SPIN_FITS: f64 = 1.5;

/// So many readings of PAUSE in a row must not fit, where the CPU's model is the same: a disturbed one is rarely alone,
/// three are.
const STRIKES: u32 = 3;

/// A change that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The variable's name.
    pub variable: &'static str,
    /// Its value now.
    pub from: String,
    /// Its value then.
    pub to: String,
    /// Why, with the numbers that it rests on.
    pub why: String,
}

/// What is to be done after a look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Changes.
    pub due: Vec<Due>,
    /// What is worth telling, each only once.
    pub notes: Vec<String>,
}

/// What it knows of one server.
#[derive(Debug, Clone)]
pub struct Governor {
    version: ServerVersion,
    commit: Option<Commit>,
    latch: Option<Latch>,
    noted: Vec<String>,
}

/// A variable that is governed, with the value that it should have: the one before, or the one that was set last.
#[derive(Debug, Clone)]
struct Held {
    name: &'static str,
    value: String,
    /// True once somebody else has set it.
    is_theirs: bool,
}

#[derive(Debug, Clone)]
struct Commit {
    hwm: Held,
    /// The value before.
    before: f64,
    /// Percent of the granted CPUs that the mark is meant to be; none until the host was read for the first time.
    meant_pct: Option<f64>,
}

#[derive(Debug, Clone)]
struct Latch {
    lever: Held,
    /// How long a full spin is to last, microseconds; none until PAUSE was read for the first time.
    meant_us: Option<f64>,
    strikes: u32,
    cpu: Option<String>,
}

impl Governor {
    /// For a server with these variables.
    pub fn new(version: ServerVersion, variables: &NamedValues) -> Self {
        let held = |name: &'static str| {
            let variable = variables::find(name).ok().filter(|variable| (variable.is_dynamic_on)(version))?;
            let value = variables.text(name)?.to_owned();
            Some(Held { name: variable.name, value, is_theirs: false })
        };
        let commit = held(HWM).and_then(|hwm| Some((hwm, variables.number(HWM)?)));
        // Whichever the latch spin is computed with: the multiplier where there is one.
        let lever = held(MULTIPLIER).or_else(|| held(DELAY));
        Self {
            version,
            commit: commit.map(|(hwm, before)| Commit { hwm, before, meant_pct: None }),
            latch: lever.map(|lever| Latch { lever, meant_us: None, strikes: 0, cpu: None }),
            noted: Vec::new(),
        }
    }

    /// Leaves alone what is not among these.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.commit = self.commit.filter(|commit| names.contains(&commit.hwm.name));
        self.latch = self.latch.filter(|latch| names.contains(&latch.lever.name));
        self
    }

    /// The variables that it may set.
    pub fn variables(&self) -> Vec<&'static Variable> {
        let commit = self.commit.as_ref().map(|commit| commit.hwm.name);
        let latch = self.latch.as_ref().map(|latch| latch.lever.name);
        commit.into_iter().chain(latch).filter_map(|name| variables::find(name).ok()).collect()
    }

    /// Looks at the host and at the server's variables of [`LOOKS_AT`], and says what is due. What was not read this time
    /// is `NotAsked`. `metric_cpus` is the server's own count of its CPUs where its memory cannot be read. The caller
    /// makes the changes, or ends.
    pub fn look(&mut self, host: &HostSample, metric_cpus: Option<u32>, now: &NamedValues) -> Step {
        let mut step = Step::default();
        let held = self.commit.as_mut().map(|commit| &mut commit.hwm);
        for held in held.into_iter().chain(self.latch.as_mut().map(|latch| &mut latch.lever)) {
            held.look_who_set_it(now, &mut step);
        }
        let due = [
            self.commit.as_mut().map(|commit| commit.due(host, metric_cpus, now)),
            self.latch.as_mut().map(|latch| latch.due(self.version, host, now)),
        ];
        for due in due.into_iter().flatten() {
            match due {
                Ok(due) => step.due.extend(due),
                Err(missing) => step.notes.push(match missing.unlock {
                    Some(unlock) => format!("{}; {unlock}", missing.because),
                    None => missing.because,
                }),
            }
        }
        step.notes.retain(|note| {
            let is_new = !self.noted.contains(note);
            if is_new {
                self.noted.push(note.clone());
            }
            is_new
        });
        step
    }
}

impl Held {
    /// Gives it up where somebody else has set it.
    fn look_who_set_it(&mut self, now: &NamedValues, step: &mut Step) {
        let Some(value) = now.text(self.name).filter(|value| !self.is_theirs && *value != self.value) else {
            return;
        };
        self.is_theirs = true;
        let Self { name, value: held, .. } = self;
        step.notes
            .push(format!("{name} was set to {value} by somebody else (it was {held}): it is left alone"));
    }

    /// The change to a value; none where it has it, or is not ours.
    fn change(&mut self, to: f64, why: impl FnOnce() -> String) -> Option<Due> {
        let to = format!("{to:.0}");
        if self.is_theirs || to == self.value {
            return None;
        }
        let from = std::mem::replace(&mut self.value, to.clone());
        Some(Due { variable: self.name, from, to, why: why() })
    }
}

impl Commit {
    fn due(
        &mut self,
        host: &HostSample,
        metric_cpus: Option<u32>,
        now: &NamedValues,
    ) -> Result<Option<Due>, Unavailable> {
        // Zero means never.
        if self.before == 0.0 {
            return Ok(None);
        }
        if now.switch(WRITER_THREADS) == Some(false) {
            return Err(Unavailable::because(format!(
                "commits do not spin while {WRITER_THREADS} is OFF: {HWM} is left as it is"
            )));
        }
        let effective = match host.effective_cpus.value() {
            Some(effective) => effective,
            None => return Err(why_missing(&host.effective_cpus, "the CPUs that the server is granted")),
        };
        let Some(counted) = host.srv_cpu_usage.value().map(|usage| usage.n_cpu).or(metric_cpus) else {
            return Err(why_missing(&host.srv_cpu_usage, "how many CPUs the server counts"));
        };
        let spin = CommitSpin {
            counted_cpus: f64::from(counted.max(1)),
            granted_cpus: effective.cpus,
            abs_lwm: now.number(LWM).unwrap_or_default(),
            pct_hwm: now.number(HWM).unwrap_or(self.before),
        };
        let counts_right = spin.counts_right();
        // A mark that stood under a quota when the governor came may have been chosen for that quota.
        let chosen = if counts_right { self.before } else { self.before.max(INTENDED_PCT) };
        let meant_pct = *self.meant_pct.get_or_insert(chosen);
        let to = if counts_right { meant_pct } else { spin.hwm_meaning(meant_pct) };
        Ok(self.hwm.change(to, || {
            let granted = match &effective.quota {
                Some(quota) if quota.cpus <= effective.cpus => {
                    format!("the quota of {} grants {:.2} CPUs", quota.cgroup, effective.cpus)
                }
                _ => format!("{:.0} CPUs are granted", effective.cpus),
            };
            match counts_right {
                true => format!("{granted}, and the server counts {counted}: the mark means what it says"),
                false => format!(
                    "{granted}, and the server counts {counted}: {meant_pct:.0} % of what is granted is \
                     {to:.0} % of what it counts"
                ),
            }
        }))
    }
}

impl Latch {
    fn due(
        &mut self,
        version: ServerVersion,
        host: &HostSample,
        now: &NamedValues,
    ) -> Result<Option<Due>, Unavailable> {
        let pause: &PauseLatency = match &host.pause {
            spindoctor_model::Reading::NotAsked => return Ok(None),
            reading => reading.value().ok_or_else(|| why_missing(reading, "how long a PAUSE takes"))?,
        };
        let spin = LatchSpin::new(version, now, pause)?;
        let target = if spin.is_default() { spin.as_meant().mean_us() } else { spin.mean_us() };
        let meant_us = *self.meant_us.get_or_insert(target);
        let model = host.cpu.value().map(|cpu| cpu.name.clone());
        let moved = model.is_some() && self.cpu.is_some() && model != self.cpu;
        self.cpu = model.or(self.cpu.take());
        let ratio = spin.mean_us() / meant_us;
        if !ratio.is_finite() || (1.0 / SPIN_FITS..=SPIN_FITS).contains(&ratio) {
            self.strikes = 0;
            return Ok(None);
        }
        self.strikes += 1;
        if !moved && self.strikes < STRIKES {
            return Ok(None);
        }
        let Some(correction) =
            spin.lasting(meant_us).filter(|correction| correction.variable == self.lever.name)
        else {
            return Ok(None);
        };
        self.strikes = 0;
        Ok(self.lever.change(correction.to, || {
            let on = match (&self.cpu, moved) {
                (Some(cpu), true) => format!(" on {cpu}, to which the server has moved"),
                _ => String::new(),
            };
            format!(
                "one PAUSE takes {:.1} ns{on}: a full spin lasts {:.0} us, and is meant to last {meant_us:.0}",
                spin.pause_ns,
                spin.mean_us()
            )
        }))
    }
}

fn why_missing<T>(reading: &spindoctor_model::Reading<T>, what: &str) -> Unavailable {
    match reading.unavailable() {
        Some(why) => why.clone(),
        None => Unavailable::because(format!("{what} was not read")),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::host::{CpuModel, EffectiveCpus, Quota, SrvCpuUsage};

    use super::*;

    fn read<T>(value: T) -> Reading<T> {
        Reading::Available { at_s: 0.0, took_ms: 0.0, value }
    }

    fn host(granted: f64, counted: u32, pause_ns: Option<f64>) -> HostSample {
        let quota = (granted < f64::from(counted)).then(|| Quota {
            cpus: granted,
            cgroup: "/pod".into(),
            ..Quota::default()
        });
        HostSample {
            effective_cpus: read(EffectiveCpus { cpus: granted, quota, ..EffectiveCpus::default() }),
            srv_cpu_usage: read(SrvCpuUsage { n_cpu: counted, ..SrvCpuUsage::default() }),
            cpu: read(CpuModel { name: "Some CPU".into(), ..CpuModel::default() }),
            pause: pause_ns
                .map_or(Reading::NotAsked, |ns| read(PauseLatency { ns, ..PauseLatency::default() })),
            ..HostSample::default()
        }
    }

    fn variables(hwm: &str) -> NamedValues {
        [(HWM, hwm), (LWM, "80"), (WRITER_THREADS, "ON"), (DELAY, "6"), (MULTIPLIER, "50"), (LOOPS, "30")]
            .into_iter()
            .collect()
    }

    fn mysql() -> ServerVersion {
        ServerVersion::parse("9.7.4", "MySQL").unwrap()
    }

    /// A governor, and the server that it governs: what is due is done.
    struct World {
        governor: Governor,
        variables: NamedValues,
    }

    impl World {
        fn new(version: ServerVersion, variables: NamedValues) -> Self {
            Self { governor: Governor::new(version, &variables), variables }
        }

        fn look(&mut self, host: &HostSample) -> Vec<(&'static str, String)> {
            let step = self.governor.look(host, None, &self.variables);
            for due in &step.due {
                assert_eq!(self.variables.text(due.variable), Some(due.from.as_str()));
                self.variables.insert(due.variable, due.to.clone());
            }
            step.due.into_iter().map(|due| (due.variable, due.to)).collect()
        }
    }

    #[test]
    fn the_mark_follows_a_quota_that_is_resized_and_comes_back_when_it_is_lifted() {
        let mut world = World::new(mysql(), variables("50"));
        assert_eq!(world.look(&host(6.0, 6, None)), []);
        assert_eq!(world.look(&host(1.0, 6, None)), [(HWM, "8".into())]);
        assert_eq!(world.look(&host(1.0, 6, None)), []);
        assert_eq!(world.look(&host(3.0, 6, None)), [(HWM, "25".into())]);
        // Moved to another cpuset: the server counts two CPUs, and the quota grants more.
        assert_eq!(world.look(&host(2.0, 2, None)), [(HWM, "50".into())]);
        assert_eq!(world.look(&host(0.5, 128, None)), [(HWM, "1".into())]);
        assert_eq!(world.look(&host(6.0, 6, None)), [(HWM, "50".into())]);
    }

    #[test]
    fn a_mark_chosen_by_hand_keeps_its_meaning_and_one_chosen_for_the_quota_grows_with_it() {
        let mut by_hand = World::new(mysql(), variables("80"));
        assert_eq!(by_hand.look(&host(6.0, 6, None)), []);
        assert_eq!(by_hand.look(&host(3.0, 6, None)), [(HWM, "40".into())]);
        let mut for_the_quota = World::new(mysql(), variables("8"));
        assert_eq!(for_the_quota.look(&host(1.0, 6, None)), []);
        assert_eq!(for_the_quota.look(&host(3.0, 6, None)), [(HWM, "25".into())]);
        let mut never = World::new(mysql(), variables("0"));
        assert_eq!(never.look(&host(1.0, 6, None)), []);
    }

    #[test]
    fn without_the_logs_threads_commits_do_not_spin_and_nothing_is_due() {
        let mut world = World::new(mysql(), variables("50"));
        world.variables.insert(WRITER_THREADS, "OFF");
        let step = world.governor.look(&host(1.0, 6, None), None, &world.variables);
        assert!(step.due.is_empty() && step.notes[0].starts_with("commits do not spin while"), "{step:?}");
        world.variables.insert(WRITER_THREADS, "ON");
        assert_eq!(world.look(&host(1.0, 6, None)), [(HWM, "8".into())]);
    }

    #[test]
    fn what_somebody_else_sets_is_theirs_and_said_once() {
        let mut world = World::new(mysql(), variables("50"));
        assert_eq!(world.look(&host(1.0, 6, None)), [(HWM, "8".into())]);
        world.variables.insert(HWM, "33");
        let step = world.governor.look(&host(1.0, 6, None), None, &world.variables);
        assert_eq!(
            step.notes,
            ["innodb_log_spin_cpu_pct_hwm was set to 33 by somebody else (it was 8): it is left alone"]
        );
        assert_eq!(world.look(&host(6.0, 6, None)), []);
        let silent = world.governor.look(&host(6.0, 6, None), None, &world.variables);
        assert_eq!(silent, Step::default());
    }

    #[test]
    fn a_slower_pause_shortens_the_spin_after_three_readings_or_at_once_on_another_cpu() {
        let mut world = World::new(mysql(), variables("50"));
        let slow = host(6.0, 6, Some(47.0));
        assert_eq!(world.look(&host(6.0, 6, Some(10.9))), []);
        assert_eq!(world.look(&slow), []);
        assert_eq!(world.look(&host(6.0, 6, Some(11.2))), [], "one that fits starts the count again");
        assert_eq!((world.look(&slow), world.look(&slow)), (vec![], vec![]));
        assert_eq!(world.look(&slow), [(MULTIPLIER, "12".into())]);
        assert_eq!(world.look(&slow), []);
        let mut elsewhere = host(6.0, 6, Some(11.0));
        elsewhere.cpu = read(CpuModel { name: "Another CPU".into(), ..CpuModel::default() });
        assert_eq!(world.look(&elsewhere), [(MULTIPLIER, "50".into())]);
    }

    #[test]
    fn settings_that_were_chosen_are_kept_as_long_as_they_lasted() {
        let mut chosen = variables("50");
        chosen.insert(MULTIPLIER, "20");
        chosen.insert(DELAY, "24");
        let mut world = World::new(mysql(), chosen);
        for _ in 0..4 {
            assert_eq!(world.look(&host(6.0, 6, Some(10.9))), []);
        }
        let slow = host(6.0, 6, Some(43.6));
        assert_eq!((world.look(&slow), world.look(&slow)), (vec![], vec![]));
        assert_eq!(world.look(&slow), [(MULTIPLIER, "5".into())]);
    }

    #[test]
    fn mariadb_has_a_delay_and_no_mark() {
        let version = ServerVersion::parse("10.11.19-MariaDB", "").unwrap();
        let variables: NamedValues = [(DELAY, "4"), (LOOPS, "30")].into_iter().collect();
        let governor = Governor::new(version, &variables);
        assert_eq!(governor.variables().iter().map(|v| v.name).collect::<Vec<_>>(), [DELAY]);
        assert_eq!(governor.only(&[HWM]).variables().len(), 0);
    }

    #[test]
    fn a_multiplier_that_was_patched_into_5_7_is_the_lever_and_the_delay_where_there_is_none() {
        let version = ServerVersion::parse("5.7.26-29-mt-log", "").unwrap();
        let patched: NamedValues = [(DELAY, "6"), (MULTIPLIER, "50"), (LOOPS, "30")].into_iter().collect();
        let mut world = World::new(version, patched);
        assert_eq!(world.look(&host(6.0, 6, Some(10.9))), []);
        let skylake = host(6.0, 6, Some(66.0));
        assert_eq!((world.look(&skylake), world.look(&skylake)), (vec![], vec![]));
        assert_eq!(world.look(&skylake), [(MULTIPLIER, "8".into())]);
        let plain: NamedValues = [(DELAY, "6"), (LOOPS, "30")].into_iter().collect();
        let names = |variables: &NamedValues| {
            Governor::new(version, variables).variables().iter().map(|v| v.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&plain), [DELAY]);
    }

    #[test]
    fn what_cannot_be_read_is_said_once_and_changes_nothing() {
        let mut world = World::new(mysql(), variables("50"));
        let blind = HostSample::unavailable(&Unavailable::because("no permission").unlock("run as root"));
        let step = world.governor.look(&blind, None, &world.variables);
        assert_eq!((step.due, step.notes), (vec![], vec!["no permission; run as root".to_owned()]));
        assert_eq!(world.governor.look(&blind, None, &world.variables), Step::default());
        // The metric does for the server's memory.
        let mut no_memory = host(1.0, 6, None);
        no_memory.srv_cpu_usage = Reading::NotAsked;
        let step = world.governor.look(&no_memory, Some(6), &world.variables);
        assert_eq!(step.due[0].to, "8");
        assert_eq!(
            step.due[0].why,
            "the quota of /pod grants 1.00 CPUs, and the server counts 6: 50 % of what is granted is 8 % of what \
             it counts"
        );
    }
}
