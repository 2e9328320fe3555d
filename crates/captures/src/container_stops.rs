//! What ends a server's container from outside says of it: docker and podman at the time limit of a stop, Amazon ECS after health checks
//! that failed.
//!
//! ```text
//! dockerd[912]: time="..." level=info msg="Container failed to exit within 10s of signal 15 - using the force" container=5b1c4f7c2a
//! podman[71]: time="..." level=warning msg="StopSignal SIGTERM failed to stop container mysql in 10 seconds, resorting to SIGKILL"
//! (service shop-db) (task 9a1b) failed container health checks.
//! ```
//!
//! Docker names a container by its number alone, ECS a service: that it is a server's is known where lines of one stand beside that.

use crate::kernel_log::is_name_of_server;

/// Why the container was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It had not ended at the time limit of its stop.
    Late,
    /// Its health checks failed.
    Unhealthy,
}

/// What a line says of a container that may be a server's; None for any other line.
pub(crate) fn stop(line: &str) -> Option<Stop> {
    // moby, daemon/stop.go; older versions write `10 seconds`.
    const BY_DOCKER: [&str; 2] = [" failed to exit within ", " - using the force"];
    // podman, libpod/oci_conmon_common.go
    const BY_PODMAN: [&str; 2] = [" failed to stop container ", ", resorting to SIGKILL"];
    const BY_ECS: [&str; 2] = ["failed container health checks", "failed ELB health checks"];
    let goes_on = |[begin, then]: [&str; 2]| {
        line.split_once(begin).filter(|(_, rest)| rest.contains(then)).map(|(_, rest)| rest)
    };
    let name = |rest: &str| rest.split(' ').next().unwrap_or_default().to_ascii_lowercase();
    let is_number = |name: &str| name.len() >= 12 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_of_ecs = line.contains("(task ") || line.contains("Task failed ");
    if goes_on(BY_DOCKER).is_some() {
        return Some(Stop::Late);
    }
    if let Some(name) = goes_on(BY_PODMAN).map(name) {
        return (is_name_of_server(&name) || is_number(&name)).then_some(Stop::Late);
    }
    (is_of_ecs && BY_ECS.iter().any(|sign| line.contains(sign))).then_some(Stop::Unhealthy)
}

/// True for such a line that names no server.
pub(crate) fn is_nameless(line: &str) -> bool {
    let said = line.split_once("msg=").map_or(line, |(_, said)| said);
    stop(line).is_some() && !said.split(' ').any(|word| is_name_of_server(&word.to_ascii_lowercase()))
}

/// True for the event of a server's container that Kubernetes stops because its pod is deleted, moved or replaced (pkg/kubelet/kuberuntime):
/// `Normal  Killing  2m  kubelet  Stopping container mysql`.
pub(crate) fn is_pod_stopped(line: &str) -> bool {
    let name = line
        .split_once("Stopping container ")
        .map(|(_, rest)| rest.split_whitespace().next().unwrap_or_default());
    line.contains("Killing ") && name.is_some_and(|name| is_name_of_server(&name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;

    use super::*;
    use crate::{recognise, window};

    const ASKED: &str = "2024-05-02T09:01:31.0Z 0 [System] [MY-013172] [Server] Received SHUTDOWN from user <via user signal>. Shutting down\n";
    const READY: &str = "2024-05-02T09:02:31.0Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: '8.0.36'\n";

    fn findings(text: &str) -> Vec<Finding> {
        spindoctor_rules::diagnose(&window(&recognise("a.txt", text))).findings
    }

    #[test]
    fn who_ended_a_container_is_said_with_what_to_change() {
        for (line, begins, change) in [
            (
                "May 02 09:01:41 db1 dockerd[912]: time=\"2024-05-02T09:01:41.1Z\" level=info msg=\"Container failed to exit within 10s of signal \
                 15 - using the force\" container=5b1c4f7c2a",
                "The server was killed (SIGKILL), because it did not end within the time of its container's stop",
                "stop_grace_period",
            ),
            (
                "time=\"2024-05-02T09:01:41.1Z\" level=info msg=\"Container 5b1c4f7c2a failed to exit within 10 seconds of signal 15 - using the force\"",
                "The server was killed (SIGKILL)",
                "docker stop --time",
            ),
            (
                "May 02 09:01:41 db1 podman[71]: time=\"2024-05-02T09:01:41Z\" level=warning msg=\"StopSignal SIGTERM failed to stop container \
                 mysql in 10 seconds, resorting to SIGKILL\"",
                "The server was killed (SIGKILL)",
                "podman stop --time",
            ),
            (
                "2024-05-02T09:01:30.0Z (service shop-db) (task 9a1b) failed container health checks.",
                "The server's container was ended, because its health checks failed",
                "startPeriod",
            ),
        ] {
            for text in [format!("{line}\n{ASKED}"), format!("{ASKED}{line}\n")] {
                let found = findings(&text);
                assert_eq!(found.len(), 1, "{text}: {found:#?}");
                assert!(found[0].headline.starts_with(begins), "{}", found[0].headline);
                assert!(found[0].remedies[0].statement.contains(change), "{:?}", found[0].remedies);
                assert_eq!(findings(&format!("{text}{READY}")), [], "{text}");
            }
            // Nothing says that it is a server's.
            let alone = recognise("a.txt", &format!("{line}\n"));
            assert!(
                alone.iter().all(|part| part.moments.is_empty()) || line.contains("container mysql"),
                "{alone:?}"
            );
        }
        for other in [
            "msg=\"StopSignal SIGTERM failed to stop container web in 10 seconds, resorting to SIGKILL\"",
            "(service shop-db) has stopped 1 running tasks: (task 9a1b).",
            "our checks failed container health checks last year",
        ] {
            assert_eq!(stop(other), None, "{other}");
        }
    }

    #[test]
    fn a_container_that_kubernetes_stops_in_order_says_how_long_it_has_and_is_no_finding() {
        let event = "  Normal  Killing  2m  kubelet  Stopping container mysql\n";
        let parts = recognise("a.txt", &format!("{event}{ASKED}"));
        let says: Vec<String> = parts.into_iter().flat_map(|part| part.says).collect();
        assert!(says.iter().any(|said| said.contains("terminationGracePeriodSeconds")), "{says:?}");
        assert_eq!(findings(&format!("{event}{ASKED}")), []);
        assert!(!is_pod_stopped(&event.replace("mysql", "mysqld-exporter")));
    }
}
