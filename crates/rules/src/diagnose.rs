//! One window through every rule: findings by rank, the causes that are clear, the causes that could not be checked,
//! and the heads of the report.

use spindoctor_model::diagnosis::{
    DiagnosedHost, DiagnosedProfile, DiagnosedServer, DiagnosedWindow, SCHEMA, SpinShares,
};
use spindoctor_model::{Diagnosis, Finding, NotExamined, Profile, Severity, Unavailable, Window};

use crate::causes::{plan_change, server_stopped, unnamed_wait, write_io_bound};
use crate::spin_samples::{SpinSamples, Whose};
use crate::{CAUSES, Cause, Costs, Outcome, comes_back, costs_of, managed, pool, rank, time_model};

/// Puts a window through every rule of [`CAUSES`].
///
/// Where the server restarted in it, the causes are judged on what came before. Remedies are written as this server takes them.
pub fn diagnose(window: &Window) -> Diagnosis {
    let mut diagnosis = examine(window);
    pool::adapt(window, &mut diagnosis.findings);
    managed::adapt(window, &mut diagnosis.findings);
    diagnosis
}

/// The same with all remedies as a server takes them that its owner runs: proposals read what they set.
pub(crate) fn examine(window: &Window) -> Diagnosis {
    let interrupted = window.interruption();
    let before_restart = window.before_restart();
    let whole = window;
    let window = before_restart.as_ref().unwrap_or(whole);
    let mut findings = Vec::new();
    let mut clear = Vec::new();
    let mut not_examined = Vec::new();
    let held = server_stopped::held_at_the_end(window);
    let mut time = time_model::session_time(window);
    for cause in CAUSES {
        if cause.name == unnamed_wait::CAUSE.name {
            continue;
        }
        match cause.evaluate(window, time.as_ref()) {
            Outcome::Fired(mut finding) => {
                finding.evidence.extend(cause.stacks.evidence(window));
                findings.push(finding);
            }
            // A stopped server shows no other trouble, so no other cause can be called clear.
            Outcome::Clear => match held.filter(|_| cause.name != server_stopped::CAUSE.name) {
                Some(because) => not_examined.push(entry(cause.name, Unavailable::because(because))),
                None => clear.push(cause.name.to_owned()),
            },
            Outcome::NotEnoughEvidence(missing) => not_examined.push(entry(cause.name, missing)),
        }
    }
    // It was found without them, and says less.
    if findings.iter().any(|finding| finding.cause == plan_change::CAUSE.name) {
        not_examined.extend(plan_change::not_read(window).map(|why| entry(plan_change::CAUSE.name, why)));
    }
    if let Some(time) = &mut time {
        time_model::set_scores(time, &mut findings);
        time.unnamed = time_model::unnamed(time, &findings);
    }
    let left_over = match &time {
        Some(time) => unnamed_wait::evaluate(window, time, &findings),
        None => unnamed_wait::CAUSE.evaluate(window, None),
    };
    match left_over {
        Outcome::Fired(finding) => findings.push(finding),
        Outcome::Clear if held.is_some() => {}
        Outcome::Clear => clear.push(unnamed_wait::CAUSE.name.to_owned()),
        Outcome::NotEnoughEvidence(missing) => not_examined.push(entry(unnamed_wait::CAUSE.name, missing)),
    }
    put_behind_who_says_why(&write_io_bound::CAUSE, &mut findings);
    let mut findings = match time {
        Some(_) => rank::rank_without_overlap(findings),
        None => rank::rank(findings),
    };
    for finding in &mut findings {
        // Nothing is -0.
        finding.score += 0.0;
    }
    comes_back::adapt(window, &mut findings);
    Diagnosis {
        schema: SCHEMA.to_owned(),
        server: server_head(window),
        host: host_head(window),
        window: DiagnosedWindow { start: window.start, seconds: whole.seconds() },
        given: Vec::new(),
        interrupted,
        cost: whole.cost,
        profile: window.profile.value().map(|profile| profile_head(window, profile)),
        time,
        findings,
        clear,
        not_examined,
    }
}

/// A plain cause says no more than that there are waits of some class: a finding that says why explains it.
fn put_behind_who_says_why(plain: &Cause, findings: &mut [Finding]) {
    let Costs::Waits(classes) = plain.costs else { return };
    if findings.iter().all(|finding| finding.cause != plain.name) {
        return;
    }
    let says_why = |finding: &Finding| {
        finding.severity > Severity::Note
            && finding.cause != plain.name
            && costs_of(finding)
                .is_some_and(|(_, explains)| classes.iter().all(|class| explains.contains(class)))
    };
    for finding in findings.iter_mut().filter(|finding| says_why(finding)) {
        finding.explains.push(plain.name.to_owned());
    }
}

fn entry(cause: &str, missing: Unavailable) -> NotExamined {
    NotExamined {
        cause: cause.to_owned(),
        because: missing.because,
        unlock: missing.unlock.unwrap_or_default(),
    }
}

fn server_head(window: &Window) -> DiagnosedServer {
    let server = &window.server;
    let processes = window.all(|s| &s.host.process);
    let process_threads =
        processes.iter().rev().find(|(_, process)| !process.has_ended()).map(|(_, process)| process.threads);
    let listed_threads =
        || window.latest(|s| &s.server.threads).map(|threads| threads.len() as u64).filter(|&n| n > 0);
    DiagnosedServer {
        flavor: server.version.map(|version| version.flavor),
        version: server.version.map(|v| format!("{}.{}.{}", v.major, v.minor, v.patch)),
        hostname: server.hostname.clone(),
        address: server.address.clone(),
        pid: server.pid,
        uptime_s: server.uptime_s,
        threads: process_threads.or_else(listed_threads),
    }
}

fn profile_head(window: &Window, profile: &Profile) -> DiagnosedProfile {
    DiagnosedProfile {
        snapshots: profile.snapshots.len() as u64,
        cpu_samples: profile.samples().len() as u64,
        spin: SpinSamples::from_window(window).ok().map(|samples| SpinShares {
            commits: samples.share(Whose::Commit),
            log_threads: samples.share(Whose::LogThreads),
            latches: samples.share(Whose::Latch),
            mutexes: samples.share(Whose::Mutex),
            kernel: samples.share(Whose::Kernel),
        }),
    }
}

fn host_head(window: &Window) -> DiagnosedHost {
    let effective = window.latest(|s| &s.host.effective_cpus);
    let pause = window.latest(|s| &s.host.pause);
    DiagnosedHost {
        effective_cpus: effective.map(|effective| effective.cpus),
        online_cpus: effective.map(|effective| effective.online),
        server_believes_cpus: window.server_counts_cpus().map(|(cpus, _)| cpus),
        quota: effective.and_then(|effective| effective.quota.clone()),
        pause_latency_ns: pause.map(|pause| pause.ns),
        pause_latency_cycles: pause.and_then(|pause| pause.core_cycles),
        cpu: window.latest(|s| &s.host.cpu).map(|cpu| cpu.name.clone()),
        numa_nodes: window.latest(|s| &s.host.numa).and_then(|nodes| u32::try_from(nodes.len()).ok()),
        unavailable: match (effective, &window.server.no_pid) {
            (None, Some(no_pid)) => Some(no_pid.because.clone()),
            (None, None) => window.missing(|s| &s.host.effective_cpus).map(|missing| missing.because),
            (Some(_), _) => None,
        },
    }
}
