//! Whose limit was reached where a server was killed for want of memory, where another line says it: the kernel's functions below its own
//! line, or what Kubernetes, Docker and systemd say around the reason of its end. And of systemd which unit had not started in time.
//!
//! ```text
//! [  812.1] mysqld invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
//! [  812.1]  mem_cgroup_out_of_memory+0x134/0x150
//!
//!   db:
//!     Image:          mysql:8.4
//!     Last State:     Terminated
//!       Reason:       OOMKilled
//!     Limits:
//!       memory:  512Mi
//! ```

use std::borrow::Cow;

use crate::container_status;
use crate::kernel_log::{is_kill_for_memory, names_server};

/// Lines below the kernel's line that its report has before its tables. By judgement.
const REPORT: usize = 60;
/// Lines of what kubectl says of a container, above and below the reason of its end, and those of `docker inspect` below it. By judgement.
const DESCRIPTION: usize = 40;
const INSPECTED: usize = 400;

/// The lines of a text, those of a kill with what is said of its limit elsewhere, in the kernel's words.
pub(crate) fn with_limits<'t>(lines: Vec<Cow<'t, str>>) -> Vec<Cow<'t, str>> {
    let limits: Vec<Option<String>> = (0..lines.len()).map(|at| limit(&lines, at)).collect();
    let with_limit = |(line, limit): (Cow<'t, str>, Option<String>)| match limit {
        Some(limit) => Cow::Owned(format!("{line} ({limit})")),
        None => line,
    };
    lines.into_iter().zip(limits).map(with_limit).collect()
}

fn limit(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    let line = lines[at].trim();
    if begins_report(line) {
        return of_group(lines, at);
    }
    if line.starts_with("Active:") {
        return of_unit(lines, at);
    }
    match line.contains("OOMKilled") {
        true => described(lines, at).or_else(|| stated(lines, at)).or_else(|| inspected(lines, at)),
        false => None,
    }
}

fn begins_report(line: &str) -> bool {
    line.contains(" invoked oom-killer") && is_kill_for_memory(line)
}

/// A report of the kernel that is of a control group's limit (mm/memcontrol.c, mm/oom_kill.c).
fn of_group(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    const SIGNS: [&str; 5] = [
        "mem_cgroup_out_of_memory",
        "mem_cgroup_oom",
        "CONSTRAINT_MEMCG",
        "emory cgroup out of memory",
        "killed as a result of limit of",
    ];
    let mut report = lines[at + 1..].iter().take(REPORT).take_while(|line| !begins_report(line));
    let is_of_group = report.any(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    is_of_group.then(|| "CONSTRAINT_MEMCG, by the lines below it".to_owned())
}

/// What `kubectl describe pod` says of the container of which it gives that reason.
fn described(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    lines[at].trim().strip_prefix("Reason:").filter(|reason| reason.trim() == "OOMKilled")?;
    let from = at.saturating_sub(DESCRIPTION);
    let place = from + lines[from..at].iter().rposition(|line| line.trim().starts_with("Image:"))?;
    let image = lines[place].trim().strip_prefix("Image:")?.trim();
    let is_name = |line: &&str| line.ends_with(':') && !line.contains(' ');
    let name = lines[from..place].iter().rev().map(|line| line.trim()).find(is_name)?.trim_end_matches(':');
    if !names_server(&format!("{name} {image}").to_ascii_lowercase()) {
        return None;
    }
    let below = lines[at..].iter().take(DESCRIPTION).map(|line| line.trim());
    let below: Vec<&str> = below.take_while(|line| !line.starts_with("Image:")).collect();
    let limits =
        below.iter().position(|line| *line == "Limits:").map_or(&[][..], |limits| &below[limits + 1..]);
    let mut limits = limits.iter().take_while(|line| !line.ends_with(':'));
    let memory = limits.find_map(|line| line.strip_prefix("memory:"));
    let limit = memory.map_or_else(String::new, |memory| format!(", limit {}", memory.trim()));
    Some(format!("container {name}, image {image}{limit}"))
}

/// `reason: OOMKilled` of a pod in YAML or JSON, with the container that it names around it.
fn stated(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    let line = lines[at].trim();
    let value = line.trim_start_matches('"').strip_prefix("reason")?.trim_start_matches(['"', ':', ' ']);
    if value.trim_end_matches(['"', ',']) != "OOMKilled" {
        return None;
    }
    let (name, image) = container_status::of_server(lines, at)?;
    Some(format!("container {name}, image {image}"))
}

/// `"OOMKilled": true,` of `docker inspect`, with the image that it names further below.
fn inspected(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    let line = lines[at].trim();
    if !line.starts_with("\"OOMKilled\": true") || line.ends_with(')') {
        return None;
    }
    let mut images =
        lines[at..].iter().take(INSPECTED).filter_map(|line| line.trim().strip_prefix("\"Image\": \""));
    let image = images.find(|image| names_server(&image.to_ascii_lowercase()))?;
    let image = image.split('"').next().unwrap_or(image);
    Some(format!("container of the image {image}"))
}

/// `Active: failed (Result: oom-kill) since ...` of `systemctl status`, or `(Result: timeout)`, below the line that names the unit: `● mysql.service - MySQL`.
fn of_unit(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    const ABOVE: usize = 8;
    let mut above = lines[at.saturating_sub(ABOVE)..at].iter().rev();
    let below = || lines[at..].iter().take(DESCRIPTION);
    let words = if lines[at].contains("(Result: oom-kill)") {
        "failed with result 'oom-kill'"
    } else if lines[at].contains("(Result: timeout)") && !below().any(|line| is_late_stop(line)) {
        "start operation timed out"
    } else {
        return None;
    };
    let unit = above.find_map(|line| {
        let (before, _) = line.split_once(".service - ")?;
        before.rsplit(' ').next()
    })?;
    names_server(unit).then(|| format!("systemd[1]: {unit}.service: {words}"))
}

/// True for systemd's line about a unit that did not stop in time, which has the same result.
fn is_late_stop(line: &str) -> bool {
    ["Stopping timed out", "'stop-sigterm' timed out"].iter().any(|sign| line.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headline of the one finding of a text.
    fn headline(text: &str) -> String {
        let parts = crate::recognise("a.txt", text);
        let mut all = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert_eq!(all.len(), 1, "{text}: {all:#?}");
        all.remove(0).headline
    }

    const OF_GROUP: &str = "The kernel killed the server: its control group had no memory left";

    #[test]
    fn functions_of_a_control_group_below_the_kernel_s_line_name_whose_memory_was_at_an_end() {
        let report = |function: &str| {
            format!(
                "[  812.10] mysqld invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
                 [  812.11] Call Trace:\n[  812.11]  dump_header+0x4a/0x1f0\n[  812.11]  {function}+0x134/0x150\n"
            )
        };
        let group = "The kernel looked for a process to kill, because its control group had no memory left for the server";
        assert_eq!(headline(&report("mem_cgroup_out_of_memory")), group);
        assert_eq!(
            headline(&report("__alloc_pages_slowpath")),
            group.replace("its control group", "the host")
        );
        // The functions of a report are those up to the next one.
        let other = report("mem_cgroup_out_of_memory").replace("mysqld", "mariadbd");
        let both = format!("{}{other}", report("out_of_memory"));
        let lines = with_limits(both.lines().map(Cow::from).collect());
        let with: Vec<&Cow<'_, str>> =
            lines.iter().filter(|line| line.contains("CONSTRAINT_MEMCG")).collect();
        assert!(with.len() == 1 && with[0].contains("mariadbd"), "{lines:?}");
    }

    #[test]
    fn a_pod_that_kubectl_describes_was_killed_at_the_limit_of_its_container() {
        let pod = |image: &str| {
            format!(
                "Name:         db-0\nContainers:\n  db:\n    Container ID:   containerd://9f\n    Image:          {image}\n    \
                 State:          Running\n    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n    \
                 Restart Count:  9\n    Limits:\n      cpu:     2\n      memory:  768Mi\n    Requests:\n      memory:  256Mi\n"
            )
        };
        assert_eq!(headline(&pod("mysql:8.4")), OF_GROUP);
        let parts = crate::recognise("a.txt", &pod("mysql:8.4"));
        assert!(format!("{parts:?}").contains("container db, image mysql:8.4, limit 768Mi"), "{parts:?}");
        let other = crate::recognise("a.txt", &pod("redis:7"));
        assert!(other.iter().all(|part| part.moments.is_empty()), "{other:?}");
    }

    #[test]
    fn a_unit_that_systemctl_shows_names_the_server_above_the_reason() {
        let status = |unit: &str, result: &str| {
            format!(
                "● {unit}.service - a server\n     Loaded: loaded (/lib/systemd/system/{unit}.service; enabled)\n     \
                 Active: failed (Result: {result}) since Tue 2024-06-04 03:12:11 UTC; 5h ago\n   Main PID: 811 (code=killed, signal=KILL)\n"
            )
        };
        assert_eq!(
            headline(&status("mariadb", "oom-kill")),
            "The kernel killed the server: the host or its control group had no memory left"
        );
        assert_eq!(
            headline(&status("mariadb", "timeout")),
            "The server does not start: systemd gave up waiting for it (TimeoutStartSec)"
        );
        let late_stop = "Jun 04 03:12:11 db1 systemd[1]: mariadb.service: Stopping timed out. Killing.\n";
        let stopped = format!("{}{late_stop}", status("mariadb", "timeout"));
        assert_eq!(
            headline(&stopped),
            "systemd killed the server (SIGKILL), because its shutdown took too long (TimeoutStopSec)"
        );
        for text in [status("php8.2-fpm", "oom-kill"), status("mariadb", "exit-code")] {
            let parts = crate::recognise("a.txt", &text);
            assert!(parts.iter().all(|part| part.moments.is_empty()), "{parts:?}");
        }
    }

    #[test]
    fn a_row_of_pods_and_docker_s_json_say_the_same() {
        assert_eq!(headline("shop-mysql-0   0/1     OOMKilled   3 (40s ago)   28m\n"), OF_GROUP);
        let json = |killed: bool| {
            format!(
                "[\n    {{\n        \"State\": {{\n            \"OOMKilled\": {killed},\n            \"ExitCode\": 137\n        }},\n        \
                 \"Config\": {{\n            \"Image\": \"mariadb:11.4\"\n        }}\n    }}\n]\n"
            )
        };
        assert_eq!(headline(&format!("docker inspect db\n{}", json(true))), OF_GROUP);
        let well = crate::recognise("a.txt", &format!("docker inspect db\n{}", json(false)));
        assert!(well.iter().all(|part| part.moments.is_empty()), "{well:?}");
        let line = "{\"State\":{\"OOMKilled\":false,\"ExitCode\":0},\"Config\":{\"Image\":\"mysql:8.4\"}} of the container";
        let well = crate::recognise("a.txt", line);
        assert!(well.iter().all(|part| part.moments.is_empty()), "{well:?}");
    }
}
