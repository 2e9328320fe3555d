//! The kernel, systemd and Kubernetes about a server: what their lines mean, and how they are recognised.

use crate::kernel_log::is_name_of_server;

/// What lines of the kernel, systemd and Kubernetes about a server that was killed mean.
pub(super) const KILLED: &str = "the kernel killed a server because no memory was left";
pub(super) const PANEL: &str = "XAMPP's panel saw the server end: the server's own log says why (the button Logs, \
                                mysql\\data\\mysql_error.log)";

/// What XAMPP's panel prints, in lower case, when the server has ended.
pub(super) const XAMPP: &str = "error: mysql shutdown unexpectedly";
pub(super) const UNIT_NOT_RUN: &str = "systemd: not run";
pub(super) const UNIT_NO_NAMESPACE: &str = "systemd: no namespace";
pub(super) const UNIT_NO_USER: &str = "systemd: no user";

/// What systemd's lines mean of a server's unit of which it could not run a command.
pub(super) const NOT_RUN: &str = "systemd could not run the server, or a command of its unit before it (203/EXEC, 127): that program is \
                                  not there, may not be executed, or lacks a library";
pub(super) const NO_NAMESPACE: &str = "systemd could not give the server the view of files that its unit asks for (226/NAMESPACE: \
                                       ProtectSystem, PrivateTmp, ReadWritePaths), as in a container that may not mount, or where one of \
                                       those folders is missing";
pub(super) const NO_USER: &str =
    "systemd did not find the user or the group that the server has to run as (217/USER)";
pub(super) const BY_SUPERVISOR: &str = "a supervisor: killed";
pub(super) const SUPERVISOR_GAVE_UP: &str = "a supervisor: gave up";
pub(super) const UNIT_STOPPED_LATE: &str = "systemd: not stopped in time";

pub(super) const UNIT_STOP_ENDED: &str = "systemd: the stop ended";
pub(super) const UNIT_TIMED_OUT: &str = "systemd: a time limit";

/// What systemd's lines of a server mean whose stop took too long, and of one that it ended after a time limit that they do not name.
pub(crate) const STOP_ENDED: &str = "systemd waited for TimeoutStopSec until the server had stopped, ended that stop and sent it SIGTERM; \
                                     where it runs for as long again, SIGKILL follows (systemctl edit: TimeoutStopSec=infinity)";
pub(crate) const TIMED_OUT: &str =
    "systemd ended the server after a time limit of its unit (TimeoutStartSec or TimeoutStopSec)";

/// Stand for what docker, podman, Amazon ECS and Kubernetes say of a container that they end, and what that means.
pub(super) const CONTAINER_LATE: &str = "a container: killed at the end of its stop";
pub(super) const CONTAINER_UNHEALTHY: &str = "a container: ended after health checks";
pub(super) const CONTAINER_STOPPED: &str = "Kubernetes: a container stopped";
pub(super) const KILLED_AT_STOP: &str = "the server's container did not end within the time of its stop, and was killed (SIGKILL): the next \
                                         start recovers as after a crash (docker stop --time, --stop-timeout, stop_grace_period; 10 s where \
                                         none of them is set)";
pub(super) const UNHEALTHY: &str = "Amazon ECS ended the server's container because its health checks failed: a busy server, or one that \
                                    recovers, answers later than timeout and retries wait";
pub(super) const POD_STOPPED: &str = "Kubernetes stopped the server's container, as where its pod is deleted, moved or replaced: it has \
                                      terminationGracePeriodSeconds (30 where the pod has none) for its shutdown, then it is killed";

/// What systemd's lines of a server mean that it killed because its shutdown took too long.
pub(crate) const STOPPED_LATE: &str = "systemd killed the server (SIGKILL) because its shutdown took longer than TimeoutStopSec: the next start \
                                       recovers as after a crash (systemctl edit: TimeoutStopSec=infinity)";

/// What the script mysql.server prints, in lower case, when the server has ended that it waits for; to 5.1 the second.
pub(super) const NO_PID_FILE: &str = "the server quit without updating pid file (";
pub(super) const MANAGER_QUIT: &str = "manager of pid-file quit without updating file";
pub(super) const OF_SCRIPT: &str = "mysql.server saw the server end at its start: the server's own log says why (HOST.err in the data \
                                    folder, or log-error)";

/// Signs that are of any program: the line names a server, too.
pub(super) const OF_KILLS: [&str; 9] = [
    "out of memory: killed process",
    "out of memory: kill process",
    "cgroup out of memory: kill",
    "killed process ",
    " invoked oom-killer",
    "oom-kill:constraint=",
    "killed by the oom killer",
    "failed with result 'oom-kill'",
    "oomkilled",
];

/// Stand for what the kernel says of a CPU that is stuck, and of another program that it killed.
pub(super) const LOCKUP: &str = "kernel: a stuck CPU";
pub(super) const OTHER_KILLED: &str = "kernel: another program killed";

/// Stand for what systemd says of a server's unit.
pub(super) const UNIT_CRASHED: &str = "systemd: crashed";
pub(super) const UNIT_KILLED: &str = "systemd: killed";
pub(super) const UNIT_BY_SIGNAL: &str = "systemd: ended by a signal";
pub(super) const UNIT_LATE: &str = "systemd: not started in time";
pub(super) const UNIT_RESTARTED: &str = "systemd: started again";
pub(super) const UNIT_NOT_STARTED: &str = "systemd: not started";

/// Stand for what a shell says of a server that it had started.
pub(super) const SHELL_KILLED: &str = "shell: killed";
pub(super) const SHELL_CRASHED: &str = "shell: crashed";

/// What systemd's lines of a server mean that was killed, and of one that did not start in time, which systemd kills itself in the end.
pub(crate) const ENDED_BY_KILL: &str = "the server was killed (SIGKILL), as systemd says: by the kernel for want of memory, by systemd \
                                        after a time limit, or by somebody";
pub(crate) const ENDED_LATE: &str = "systemd ended the server because it had not started within TimeoutStartSec: recovery after a crash, \
                                     or the state transfer of a cluster, takes longer (systemctl edit: TimeoutStartSec=infinity)";

pub(super) const LIVENESS: &str = "Kubernetes' liveness probe of the container failed: after failureThreshold times in a row Kubernetes \
                                   ends the container. A server that is busy, or recovers, answers later than timeoutSeconds";
pub(super) const READINESS: &str =
    "Kubernetes' readiness probe of the container failed: its service sends it no clients meanwhile";

pub(super) const STARTUP: &str = "Kubernetes' startup probe of the container failed: after failureThreshold times in a row, periodSeconds \
                                  apart, Kubernetes ends the container, whether or not its server still recovers";

/// Stand for Kubernetes' events of a container that it ends because a probe failed (pkg/kubelet/kuberuntime), and of a pod that it evicts
/// (pkg/kubelet/eviction).
pub(super) const PROBE_FAILED: &str = "Kubernetes: a liveness probe failed";
pub(super) const STARTUP_FAILED: &str = "Kubernetes: a startup probe failed";
pub(super) const POD_EVICTED: &str = "Kubernetes: a pod evicted";

/// Stand for its events of a probe that failed, which do not name the container: `Warning  Unhealthy  19m (x1671 over 5d15h)  kubelet  Liveness
/// probe failed: `.
pub(super) const EVENTS_OF_PROBES: [&str; 3] =
    [" liveness probe failed:", " readiness probe failed:", " startup probe failed:"];

/// True for such an event.
pub(crate) fn is_event_of_probe(line: &str) -> bool {
    if !line.contains(" Unhealthy ") {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    EVENTS_OF_PROBES.iter().any(|sign| lower.contains(sign))
}

/// True for the event of a server's container that is ended because a probe failed.
pub(crate) fn is_probe_failed(line: &str) -> bool {
    is_liveness_failed(line) || is_startup_failed(line)
}

/// The same of its liveness probe: `Container mysql failed liveness probe, will be restarted`, and to Kubernetes 1.13 `Killing container with
/// id docker://mysql:Container failed liveness probe.. Container will be killed and recreated.`
pub(super) fn is_liveness_failed(line: &str) -> bool {
    const KILLING: &str = "Killing container with id docker://";
    let is_old = |rest: &str| rest.contains(" failed liveness probe");
    let of_old = || line.split_once(KILLING).filter(|(_, rest)| is_old(rest));
    let name = || of_old().and_then(|(_, rest)| rest.split(':').next());
    is_failed(line, " failed liveness probe, will be restarted") || name().is_some_and(is_name_of_server)
}

/// The same of its startup probe, which Kubernetes has from 1.16 on.
pub(super) fn is_startup_failed(line: &str) -> bool {
    is_failed(line, " failed startup probe, will be restarted")
}

/// True where a server's container stands before such words.
fn is_failed(line: &str, words: &str) -> bool {
    let before = line.split_once(words).map(|(before, _)| before);
    before.and_then(|before| before.rsplit(' ').next()).is_some_and(is_name_of_server)
}

/// True for the event of a server's pod that is evicted: `Warning  Evicted  pod/mysql-0  The node was low on resource: memory. Container mysql
/// was using 6123456Ki, request is 4Gi`.
pub(crate) fn is_evicted(line: &str) -> bool {
    let is_event = line.contains("Evicted ") && line.contains("The node was low on resource: ");
    is_event && line.split([' ', '\t', '/']).any(is_name_of_server)
}

/// True for the line of XAMPP's panel.
pub(crate) fn is_of_panel(line: &str) -> bool {
    line.contains("Error: MySQL shutdown unexpectedly")
}

/// `[08:36:43] INFO: Service mariadb exited with code 256 (by signal 9)`, as s6 says it of the programs of a container, and supervisord's
/// `INFO exited: mysqld (terminated by SIGKILL; not expected)`.
pub(super) fn is_killed_by_supervisor_s_word(lower: &str) -> bool {
    let exited =
        lower.split_once(" exited: ").and_then(|(_, rest)| rest.split_once(" (terminated by sigkill"));
    if exited.is_some_and(|(name, _)| is_name_of_server(name)) {
        return true;
    }
    let service = lower.split_once("service ").map(|(_, rest)| rest);
    let name =
        service.and_then(|rest| rest.split_once(" exited with code 256 (by signal 9)")).map(|(name, _)| name);
    name.is_some_and(|name| !name.contains(' ') && is_name_of_server(name))
}

/// `INFO gave up: mysqld entered FATAL state, too many start retries too quickly`, as supervisord says it, in lower case.
pub(super) fn is_given_up(lower: &str) -> bool {
    let rest = lower.split_once(" gave up: ").and_then(|(_, rest)| rest.split_once(" entered fatal state"));
    rest.is_some_and(|(name, _)| is_name_of_server(name))
}

/// True for a line in which supervisord says that a server was killed, or that it does not start it any more.
pub(crate) fn is_of_supervisord(line: &str) -> bool {
    let is_likely = [" gave up: ", " exited: "].iter().any(|sign| line.contains(sign));
    let lower = || line.to_ascii_lowercase();
    is_likely && (is_given_up(&lower()) || is_killed_by_supervisor_s_word(&lower()))
}

/// True for a line of mysql.server that saw the server end.
pub(crate) fn is_of_script(line: &str) -> bool {
    let lower = || line.to_ascii_lowercase();
    line.contains("quit without updating ")
        && [NO_PID_FILE, MANAGER_QUIT].iter().any(|sign| lower().contains(sign))
}
