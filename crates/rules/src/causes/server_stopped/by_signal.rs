//! A server that a signal ended, by what systemd, a container's supervisor and Kubernetes say of it.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window, number};

use super::CAUSE;
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};

/// Who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Witness {
    /// `mysqld.service: Failed with result 'signal'.`
    Systemd,
    /// `Service mariadb exited with code 256 (by signal 9)`
    Supervisor,
    /// `Container mysql failed liveness probe, will be restarted`
    Kubernetes,
}

impl Witness {
    /// By the line.
    fn from_line(line: &str) -> Self {
        if line.contains("liveness probe") {
            Self::Kubernetes
        } else if line.contains("exited with code 256") {
            Self::Supervisor
        } else {
            Self::Systemd
        }
    }

    /// What it says of a server that did not start, behind `The server does not start: `.
    fn of_start(self) -> &'static str {
        match self {
            Self::Systemd => "a signal ended it, as systemd says; it crashed, or it was killed",
            Self::Supervisor => "it was killed (SIGKILL), as the supervisor of its container says",
            Self::Kubernetes => "Kubernetes ended it, because its liveness probe failed",
        }
    }

    /// The same of a server of which nothing says that it did not start.
    fn headline(self) -> &'static str {
        match self {
            Self::Systemd => "A signal ended the server, as systemd says; it crashed, or it was killed",
            Self::Supervisor => "The server was killed (SIGKILL), as the supervisor of its container says",
            Self::Kubernetes => "Kubernetes ended the server, because its liveness probe failed",
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Systemd => {
                "A server that crashes ends itself with SEGV, ABRT or BUS. The kernel, for want of memory, and systemd, after a time limit, \
                 end it with KILL."
            }
            Self::Supervisor => {
                "The kernel ends a process with KILL where the host, or the container, has no memory left; else somebody, or a program that \
                 did not want to wait for it to end, did."
            }
            Self::Kubernetes => {
                "Kubernetes ends a container whose liveness probe fails failureThreshold times in a row. A server that is busy, or recovers \
                 after it was ended so, answers later than timeoutSeconds, and is ended again: each time it has to recover from the beginning."
            }
        }
    }

    fn remedy(self) -> Remedy {
        match self {
            Self::Systemd => look(
                "systemctl status of its unit, or journalctl -u mysqld -u mysql -u mariadb, names the signal (status=6/ABRT, 11/SEGV, 9/KILL). \
                 KILL: dmesg | grep -i 'out of memory'. Else give the lines of the error log around `got signal`: a check that failed, or \
                 the functions that it died in",
                "A crash is a defect of the program, its data or the hardware; a kill is a matter of memory or time.",
            ),
            Self::Supervisor => look(
                "dmesg | grep -i 'out of memory' on the host; docker inspect of the container (State.OOMKilled), or kubectl describe pod POD (Last \
                 State: OOMKilled, and the limit of its memory)",
                "Where the kernel killed it, its memory and the limit of its container do not fit each other; where not, the time says who did.",
            ),
            Self::Kubernetes => Remedy {
                statement: "kubectl describe pod POD shows the probe, its timeouts and how often it failed (Last State: OOMKilled is a matter of \
                            memory instead). Raise timeoutSeconds and failureThreshold of livenessProbe, and give a start that recovers a \
                            startupProbe of its own with failureThreshold x periodSeconds longer than the recovery takes"
                    .into(),
                why: "The probe then ends a server that hangs, and not one that is busy or recovers.".into(),
                dynamic: false,
                risk: "The container is started again with the new probe, and a server that hangs is noticed later.".into(),
                undo: "Give the probe its old values.".into(),
            },
        }
    }
}

/// Something to look at.
fn look(statement: &str, why: &str) -> Remedy {
    Remedy {
        statement: statement.into(),
        why: why.into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        undo: String::new(),
    }
}

/// A start that a signal ended: `trouble` says that it ended.
pub(super) fn at_its_start(trouble: &LoggedTrouble, times: u64, signal: &LoggedTrouble) -> Finding {
    let witness = Witness::from_line(&signal.line);
    Draft::new(&CAUSE, CRITICAL_FROM, format!("The server does not start: {}", witness.of_start()))
        .why(witness.why())
        .evidence(Evidence::new("a signal", signal.line.clone(), "", "error log"))
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .remedy(witness.remedy())
        .finding()
}

/// A server that a signal ended, and of which no line says that it has started again or could not.
pub(super) fn alone(window: &Window) -> Option<Finding> {
    let (signal, times) = logged::at_the_end(window, TroubleKind::EndedBySignal)?;
    // A failed start has its reason there or is another cause's, and that the kernel killed the server is memory-pressure's.
    let others = [TroubleKind::NotStarted, TroubleKind::KilledForMemory];
    if others.iter().any(|kind| logged::at_the_end(window, *kind).is_some()) {
        return None;
    }
    let witness = Witness::from_line(&signal.line);
    let often = match times {
        0 | 1 => String::new(),
        _ => format!(", {} in what was given", number::counted(times, "time", "times")),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, format!("{}{often}", witness.headline()))
            .why(witness.why())
            .evidence_all(logged::evidence(signal, times).into_iter())
            .remedy(witness.remedy())
            .finding(),
    )
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;
    use crate::testing::of_log as found;

    const SYSTEMD: &str = "systemd[1]: mysqld.service: Failed with result 'signal'.";
    const SUPERVISOR: &str = "[08:36:43] INFO: Service mariadb exited with code 256 (by signal 9)";
    const PROBE: &str =
        "Normal  Killing  8m  kubelet  Container mysql failed liveness probe, will be restarted";

    #[test]
    fn a_signal_that_somebody_saw_is_why_a_server_does_not_start() {
        let ended = (TroubleKind::NotStarted, "[ERROR] Aborting");
        for (line, because) in
            [(SYSTEMD, "a signal ended it"), (SUPERVISOR, "it was killed"), (PROBE, "Kubernetes ended it")]
        {
            let signal = (TroubleKind::EndedBySignal, line);
            let all = found(&[signal, ended]);
            assert!(all.len() == 1 && all[0].headline.contains(because), "{all:#?}");
            assert_eq!(all[0].severity, Severity::Critical);
            let crashed = found(&[signal, ended, (TroubleKind::Crashed, "mysqld got signal 6 ;")]);
            assert!(crashed[0].headline.starts_with("The server crashed"), "{}", crashed[0].headline);
        }
    }

    #[test]
    fn a_server_that_a_signal_ended_is_a_warning_with_where_to_look() {
        for (line, begins, look) in [
            (SYSTEMD, "A signal ended the server", "systemctl status"),
            (SUPERVISOR, "The server was killed (SIGKILL)", "dmesg"),
            (PROBE, "Kubernetes ended the server, because its liveness probe failed", "kubectl describe pod"),
        ] {
            let signal = (TroubleKind::EndedBySignal, line);
            let all = found(&[signal]);
            assert_eq!((all.len(), all[0].severity), (1, Severity::Warning), "{all:#?}");
            assert!(all[0].headline.starts_with(begins), "{}", all[0].headline);
            assert!(all[0].remedies[0].statement.contains(look), "{:?}", all[0].remedies);
            let twice = found(&[signal, signal]);
            assert!(twice[0].headline.ends_with("2 times in what was given"), "{}", twice[0].headline);
        }
        let kill = (TroubleKind::KilledForMemory, "Out of memory: Killed process 77 (mysqld) total-vm:9kB");
        let killed = found(&[(TroubleKind::EndedBySignal, SYSTEMD), kill]);
        assert_eq!(killed.iter().map(|one| one.cause.as_str()).collect::<Vec<_>>(), ["memory-pressure"]);
    }
}
