//! A prediction as it is shown and as JSON has it.

use serde::Serialize;
use spindoctor_page::number;
use spindoctor_predict::{
    Answer, Assumption, Compared, Fit, Fitted, Ground, Hardware, LEFT_OUT, Question, Settings, rms_log_error,
};
use spindoctor_tune::undo::is_named;
use spindoctor_tune::variables::find;

/// From so many times the throughput on settings are worth a trial: another seed alone changes an answer by up to 5 %
/// (crates/predict/tests/laws.rs).
const WORTH: f64 = 1.05;

/// A prediction with all that it rests on: the JSON of `predict`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Name and version of this form: fields may be added, none is renamed or removed.
    pub schema: &'static str,
    /// The file of the measurements.
    pub source: String,
    /// Of a recording: from when to when, how many slices of it were taken, and what was left out; none of other files.
    pub recorded: Option<String>,
    /// What was measured, on what.
    pub ground: Ground,
    /// The model beside it. These points are fitted, none is predicted.
    pub fit: Fit,
    /// Measurements that the fit did not get, beside the model.
    pub held_out: Vec<Fitted>,
    /// Root mean square of the logarithms' errors over them; none where none were held out.
    pub held_out_rms_log_error: Option<f64>,
    /// What is taken for granted of the machine that is asked about.
    pub assumptions: Vec<Assumption>,
    /// The machine that is asked about.
    pub hardware: Hardware,
    /// The settings that are asked about.
    pub settings: Settings,
    /// What the model answers. None of it was given to the fit.
    pub answer: Answer,
    /// The settings that are asked about, beside those that were measured, on that machine: those that do most first. The answer is
    /// of the first.
    pub compared: Vec<Compared>,
    /// The command that tries them on a server; none where no setting does more, or one of them cannot be changed while it runs.
    pub trial: Option<String>,
    /// What the model does not have.
    pub left_out: Vec<&'static str>,
}

/// What the model does not have, fitted to a recording: its connections are not the server's.
const OF_A_RECORDING: &str = "how many clients there are, and for how long they rest: connections are sessions at work, each with its next \
                              statement at once, and a transaction is one statement";

/// A question and what the model says.
pub struct Answered {
    pub question: Question,
    pub compared: Vec<Compared>,
    pub answer: Answer,
}

impl Prediction {
    pub fn new(
        (source, recorded): (String, Option<String>),
        ground: Ground,
        fit: Fit,
        held_out: Vec<Fitted>,
        answered: Answered,
    ) -> Self {
        let left_out = LEFT_OUT.into_iter().chain(recorded.is_some().then_some(OF_A_RECORDING)).collect();
        let held_out_rms_log_error = (!held_out.is_empty()).then(|| rms_log_error(&held_out));
        let Answered { question, compared, answer } = answered;
        let Question { hardware, settings, assumptions, threads: _ } = question;
        let trial = compared.first().filter(|best| best.ratio >= WORTH);
        let trial = trial.and_then(|best| trial_of(&changed(&ground.settings, &best.settings)));
        Self {
            schema: "spindoctor.predict/1",
            source,
            recorded,
            ground,
            fit,
            held_out,
            held_out_rms_log_error,
            assumptions,
            hardware,
            settings,
            answer,
            compared,
            trial,
            left_out,
        }
    }

    /// What differs from what was measured: `innodb_sync_spin_loops 30 -> 200`; nothing where nothing does.
    pub fn changes(&self) -> Vec<String> {
        let (was, is) = (&self.ground.hardware, &self.hardware);
        let quota = |cpus: Option<f64>| cpus.map_or("none".to_owned(), number::plain);
        let machine = [
            ("CPUs", was.cpus.to_string(), is.cpus.to_string()),
            ("NUMA nodes", was.numa_nodes.to_string(), is.numa_nodes.to_string()),
            ("PAUSE", number::quantity(was.pause_ns, "ns"), number::quantity(is.pause_ns, "ns")),
            ("quota, CPUs", quota(was.quota_cpus), quota(is.quota_cpus)),
        ];
        let setting = |variable: &&'static str| {
            let value = |of: &Settings| of.get(variable).map_or(String::new(), number::plain);
            (*variable, value(&self.ground.settings), value(&self.settings))
        };
        let variables = Settings::variables();
        let all = machine.into_iter().chain(variables.iter().map(setting));
        let changed = all.filter(|(_, was, is)| was != is);
        changed.map(|(name, was, is)| format!("{name} {was} -> {is}")).collect()
    }
}

/// Variables that have another value, with it.
pub fn changed(was: &Settings, is: &Settings) -> Vec<(&'static str, f64)> {
    let other = |variable: &'static str| {
        Some((variable, is.get(variable)?)).filter(|_| was.get(variable) != is.get(variable))
    };
    Settings::variables().into_iter().filter_map(other).collect()
}

/// `spindoctor tune --apply --around --only innodb_sync_spin_loops=200`: from there `tune` looks further.
fn trial_of(changed: &[(&str, f64)]) -> Option<String> {
    let can_be_tried = |name: &str| find(name).is_ok() || is_named(name);
    let is_possible = !changed.is_empty() && changed.iter().all(|(variable, _)| can_be_tried(variable));
    let only = changed.iter().map(|(variable, value)| format!(" --only {variable}={value}"));
    is_possible.then(|| format!("spindoctor tune --apply --around{}", only.collect::<String>()))
}

/// `machine` in words: `24 CPUs, 2 NUMA nodes, PAUSE 3.4 ns`.
pub fn machine(hardware: &Hardware) -> String {
    let mut text = format!(
        "{}, {}, PAUSE {}",
        number::counted(u64::from(hardware.cpus), "CPU", "CPUs"),
        number::counted(u64::from(hardware.numa_nodes), "NUMA node", "NUMA nodes"),
        number::quantity(hardware.pause_ns, "ns")
    );
    if let Some(cpus) = hardware.quota_cpus {
        text = format!("{text}, quota of {}", number::quantity(cpus, "CPUs"));
    }
    text
}
