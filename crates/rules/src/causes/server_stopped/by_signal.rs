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
    /// `Container mysql failed startup probe, will be restarted`
    StartupProbe,
    /// `Evicted  pod/mysql-0  The node was low on resource: memory.`
    Eviction,
    /// `mysqld.service: State 'stop-sigterm' timed out. Killing.`
    StopTimeout,
    /// `mysqld.service: Stopping timed out. Terminating.`
    StopCommand,
    /// `Container failed to exit within 10s of signal 15 - using the force`
    ContainerStop,
    /// `(service shop-db) (task 9a1b) failed container health checks.`
    HealthChecks,
}

impl Witness {
    /// By the line.
    fn from_line(line: &str) -> Self {
        if line.contains("startup probe") {
            Self::StartupProbe
        } else if line.contains("liveness probe") {
            Self::Kubernetes
        } else if line.contains("low on resource") {
            Self::Eviction
        } else if line.contains("stop-sigterm") || line.contains("Stopping timed out. Killing") {
            Self::StopTimeout
        } else if line.contains("Stopping timed out") || line.contains("'stop' timed out") {
            Self::StopCommand
        } else if line.contains(" - using the force") || line.contains(", resorting to SIGKILL") {
            Self::ContainerStop
        } else if line.contains(" health checks") {
            Self::HealthChecks
        } else if line.contains("exited with code 256") || line.contains("terminated by SIGKILL") {
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
            Self::StartupProbe => "Kubernetes ended it, because its startup probe failed",
            Self::Eviction => "Kubernetes evicted its pod, because the node was short of memory or of space",
            Self::StopTimeout => {
                "systemd killed it (SIGKILL), because its shutdown took too long (TimeoutStopSec)"
            }
            Self::StopCommand => "systemd ended its stop, because it took longer than TimeoutStopSec",
            Self::ContainerStop => {
                "it was killed (SIGKILL), because it did not end within the time of its container's stop"
            }
            Self::HealthChecks => "its container was ended, because its health checks failed (Amazon ECS)",
        }
    }

    /// The same of a server of which nothing says that it did not start.
    fn headline(self) -> &'static str {
        match self {
            Self::Systemd => "A signal ended the server, as systemd says; it crashed, or it was killed",
            Self::Supervisor => "The server was killed (SIGKILL), as the supervisor of its container says",
            Self::Kubernetes => "Kubernetes ended the server, because its liveness probe failed",
            Self::StartupProbe => "Kubernetes ended the server, because its startup probe failed",
            Self::Eviction => {
                "Kubernetes evicted the server's pod, because the node was short of memory or of space"
            }
            Self::StopTimeout => {
                "systemd killed the server (SIGKILL), because its shutdown took too long (TimeoutStopSec)"
            }
            Self::StopCommand => {
                "systemd ended the stop of the server, because it took longer than TimeoutStopSec"
            }
            Self::ContainerStop => {
                "The server was killed (SIGKILL), because it did not end within the time of its container's stop"
            }
            Self::HealthChecks => {
                "The server's container was ended, because its health checks failed (Amazon ECS)"
            }
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
            Self::StartupProbe => {
                "Kubernetes ends a container whose startup probe has failed failureThreshold times, periodSeconds apart. A server that recovers after \
                 a crash takes no connections until that is done; ended in between, it has to recover from the beginning each time."
            }
            Self::Eviction => {
                "The kubelet ends pods when its node has too little memory or disk space left: first those that use more than their requests. What \
                 the server had not written is recovered at its next start."
            }
            Self::StopTimeout => {
                "A server that shuts down writes what it has changed in memory, and waits for long rollbacks; systemd waits for TimeoutStopSec alone \
                 (90 s where the unit has none). Its next start recovers as after a crash, and takes as long as that."
            }
            Self::StopCommand => {
                "The command of the unit that stops the server did not end within TimeoutStopSec (90 s where the unit has none). systemd then sends \
                 the server SIGTERM and, after the same time again, SIGKILL: where that comes before the end of the shutdown, the next start \
                 recovers as after a crash."
            }
            Self::ContainerStop => {
                "A stop of a container sends SIGTERM and, after 10 s where nobody set another time, SIGKILL. A server that shuts down writes what it \
                 has changed in memory, and waits for long rollbacks. Its next start recovers as after a crash, and takes as long as that."
            }
            Self::HealthChecks => {
                "ECS ends a task whose container's health check fails as often in a row as its retries say, or whose load balancer finds it \
                 unhealthy. A server that is busy, or recovers after it was ended so, answers later than the timeout, and is ended again: each time \
                 it has to recover from the beginning."
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
            Self::StartupProbe => Remedy {
                statement: "Raise failureThreshold of startupProbe, so that failureThreshold x periodSeconds is longer than the recovery takes (the \
                            server's log: from `starting as process` to `ready for connections`); kubectl describe pod POD shows its values"
                    .into(),
                why: "The server then ends its recovery, and the other probes begin after that.".into(),
                dynamic: false,
                risk: "A server that hangs at its start is ended later.".into(),
                undo: "Give the probe its old values.".into(),
            },
            Self::Eviction => Remedy {
                statement: "Give the server's container a memory request as large as its limit, above innodb_buffer_pool_size and what connections \
                            take; kubectl describe node NODE shows what else the node has to hold. Short of disk space: kubectl describe pod POD \
                            names ephemeral-storage"
                    .into(),
                why: "A pod that does not use more than it requests is evicted last.".into(),
                dynamic: false,
                risk: "The pod is started again, and only on a node that has so much memory left.".into(),
                undo: "Give the container its old requests.".into(),
            },
            Self::ContainerStop => Remedy {
                statement: "docker stop --time 600 (podman stop --time 600), stop_grace_period: 10m in compose.yaml, or --stop-timeout 600 where the \
                            container is made. Before a planned stop: SET GLOBAL innodb_max_dirty_pages_pct = 0, and wait until \
                            Innodb_buffer_pool_pages_dirty is small"
                    .into(),
                why: "The shutdown then ends by itself, and the next start has nothing to recover.".into(),
                dynamic: false,
                risk: "A shutdown that hangs is ended later: its error log shows whether it goes on.".into(),
                undo: "Give the container its old time.".into(),
            },
            Self::HealthChecks => Remedy {
                statement: "In the task definition raise timeout, retries and startPeriod of healthCheck, so that a recovery fits into startPeriod (300 s \
                            at most) and retries x interval after that; for a load balancer healthCheckGracePeriodSeconds of the service; stopTimeout \
                            (30 s where it is not set) for the shutdown. aws ecs describe-tasks shows stoppedReason"
                    .into(),
                why: "The checks then end a server that hangs, and not one that is busy or recovers.".into(),
                dynamic: false,
                risk: "The task is started again with the new definition, and a server that hangs is noticed later.".into(),
                undo: "Take the task definition before it.".into(),
            },
            Self::StopTimeout | Self::StopCommand => Remedy {
                statement: "systemctl edit mysqld (mysql, mariadb): [Service] and TimeoutStopSec=infinity below it. Before a planned shutdown: SET GLOBAL \
                            innodb_max_dirty_pages_pct = 0, and wait until Innodb_buffer_pool_pages_dirty is small"
                    .into(),
                why: "The shutdown then ends by itself, and the next start has nothing to recover.".into(),
                dynamic: true,
                risk: "A shutdown that hangs is not ended any more: its error log shows whether it goes on.".into(),
                undo: "systemctl revert mysqld (mysql, mariadb).".into(),
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
        .evidence_if(its_start(signal))
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
    let how_far = match signal.detail.as_str() {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, format!("{}{often}{how_far}", witness.headline()))
            .why(witness.why())
            .evidence_if(its_start(signal))
            .evidence_all(logged::evidence(signal, times).into_iter())
            .remedy(witness.remedy())
            .finding(),
    )
}

/// How far its start had come, where the log says so.
fn its_start(signal: &LoggedTrouble) -> Option<Evidence> {
    (!signal.detail.is_empty()).then(|| Evidence::new("its start", signal.detail.clone(), "", "error log"))
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
    const STARTUP: &str =
        "Normal  Killing  8m  kubelet  Container mysql failed startup probe, will be restarted";
    const EVICTED: &str = "5m  Warning  Evicted  pod/mysql-0  The node was low on resource: memory.";
    const STOPPED: &str = "systemd[1]: mysql.service: State 'stop-sigterm' timed out. Killing.";
    const STOP_ENDED: &str = "systemd[1]: mysql.service: Stopping timed out. Terminating.";
    const STOPPED_BEFORE: &str = "systemd[1]: mysql.service: Stopping timed out. Killing.";
    const DOCKER: &str =
        "msg=\"Container failed to exit within 10s of signal 15 - using the force\" container=5b1c4f7c2a";
    const PODMAN: &str =
        "msg=\"StopSignal SIGTERM failed to stop container mysql in 10 seconds, resorting to SIGKILL\"";
    const ECS: &str = "(service shop-db) (task 9a1b) failed container health checks.";
    const SUPERVISORD: &str = "INFO exited: mysqld (terminated by SIGKILL; not expected)";

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
            (STARTUP, "Kubernetes ended the server, because its startup probe failed", "failureThreshold"),
            (EVICTED, "Kubernetes evicted the server's pod", "memory request"),
            (STOPPED, "systemd killed the server (SIGKILL), because its shutdown", "TimeoutStopSec=infinity"),
            (SUPERVISORD, "The server was killed (SIGKILL)", "dmesg"),
            (STOP_ENDED, "systemd ended the stop of the server", "TimeoutStopSec=infinity"),
            (
                STOPPED_BEFORE,
                "systemd killed the server (SIGKILL), because its shutdown",
                "TimeoutStopSec=infinity",
            ),
            (DOCKER, "The server was killed (SIGKILL), because it did not end within", "--stop-timeout"),
            (PODMAN, "The server was killed (SIGKILL), because it did not end within", "podman stop --time"),
            (ECS, "The server's container was ended, because its health checks failed", "startPeriod"),
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
