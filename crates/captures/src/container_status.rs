//! How the container of a server ended, by what Kubernetes and Docker keep of it in YAML and JSON: `kubectl get pod -o yaml`,
//! `docker inspect`.
//!
//! ```text
//!     lastState:
//!       terminated:
//!         exitCode: 139
//!         reason: Error
//!     name: mysql
//!     restartCount: 9
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::kernel_log::is_name_of_server;

/// Lines of Kubernetes' status of a container, around the code, and those of `docker inspect` below it. By judgement.
const STATUS: usize = 40;
const INSPECTED: usize = 400;
/// Lines that a state has above its code and its reason. By judgement.
const ABOVE: usize = 8;
/// Codes that are looked at: for each of them hundreds of lines are.
const MOST: usize = 1_000;

/// How a line begins that stands for the code.
const ENDED: &str = "Container ended: ";

/// How a container of a server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended<'t> {
    pub(crate) name: &'t str,
    pub(crate) image: &'t str,
    pub(crate) code: u32,
    pub(crate) restarts: u64,
    /// It ends again and again.
    pub(crate) is_waiting: bool,
}

/// The lines of a text, those of a server's container with the code with which it ended for themselves.
pub(crate) fn with_names<'t>(lines: Vec<Cow<'t, str>>) -> Vec<Cow<'t, str>> {
    let has_code = |at: &usize| lines[*at].contains("xitCode");
    let places = (0..lines.len()).filter(has_code).take(MOST);
    let mut codes: BTreeMap<usize, String> = places.filter_map(|at| Some((at, ended(&lines, at)?))).collect();
    if codes.is_empty() {
        return lines;
    }
    let all = lines.into_iter().enumerate();
    all.map(|(at, line)| codes.remove(&at).map_or(line, Cow::Owned)).collect()
}

/// Such a line.
pub(crate) fn read(line: &str) -> Option<Ended<'_>> {
    let mut words = line.strip_prefix(ENDED)?.split_whitespace();
    let (name, image) = (words.next()?, words.next()?);
    let (code, restarts) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Ended { name, image, code, restarts, is_waiting: words.next().is_some() })
}

fn ended(lines: &[Cow<'_, str>], at: usize) -> Option<String> {
    let (key, code) = pair(&lines[at])?;
    let code = code.parse::<u32>().ok().filter(|code| *code > 0)?;
    if !["exitCode", "ExitCode"].contains(&key) {
        return None;
    }
    let near = &lines[at.saturating_sub(ABOVE)..lines.len().min(at + ABOVE)];
    // The kernel's kill is said by itself.
    if near.iter().any(|line| line.contains("OOMKilled") && !line.contains("false")) {
        return None;
    }
    let (name, image) = of_server(lines, at)?;
    let image = image.split_whitespace().next().unwrap_or("-");
    let restarts = match side(lines, at) {
        Side::Above => above(lines, at, &["restartCount"]),
        _ => below(lines, at, STATUS, &["restartCount", "RestartCount"]),
    };
    let restarts: u64 = restarts.and_then(|count| count.parse().ok()).unwrap_or(0);
    let mut status =
        lines[at..].iter().take(STATUS).take_while(|line| pair(line).is_none_or(|(key, _)| key != "imageID"));
    let is_waiting = status.any(|line| line.contains("CrashLoopBackOff"));
    let again = if is_waiting { " again" } else { "" };
    Some(format!("{ENDED}{name} {image} {code} {restarts}{again}"))
}

/// The name and the image of the container of a state in a line of it, where it is a server's.
pub(crate) fn of_server<'t>(lines: &'t [Cow<'_, str>], at: usize) -> Option<(&'t str, &'t str)> {
    let (name, image) = match side(lines, at) {
        Side::Around => (below(lines, at, STATUS, &["name"]), image_above(lines, at)),
        Side::Above => (above(lines, at, &["name"]), image_above(lines, at)),
        Side::Below => (below(lines, at, INSPECTED, &["Name"]), below(lines, at, INSPECTED, &["Image"])),
        Side::Unknown => (below(lines, at, STATUS, &["name", "Name"]), None),
    };
    let (name, image) = (name.unwrap_or_default().trim_start_matches('/'), image.unwrap_or_default());
    let both = format!("{name} {image}").to_ascii_lowercase();
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    (is_name && is_name_of_server(&both)).then_some((name, image))
}

/// Where the names of a container stand, as seen from its state: names are in the order of the alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// `lastState` of Kubernetes.
    Around,
    /// `state` of Kubernetes.
    Above,
    /// `State` of Docker.
    Below,
    /// The beginning was left out.
    Unknown,
}

fn side(lines: &[Cow<'_, str>], at: usize) -> Side {
    /// Docker has more of a state above its code.
    const OF_DOCKER: usize = 12;
    let above = lines[at.saturating_sub(OF_DOCKER)..at].iter().rev();
    let state = above.filter_map(|line| pair(line)).find_map(|(key, _)| match key {
        "lastState" => Some(Side::Around),
        "state" => Some(Side::Above),
        "State" => Some(Side::Below),
        _ => None,
    });
    state.unwrap_or(Side::Unknown)
}

fn above<'t>(lines: &'t [Cow<'_, str>], at: usize, keys: &[&str]) -> Option<&'t str> {
    lines[at.saturating_sub(STATUS)..at].iter().rev().find_map(|line| value(line, keys))
}

/// The image by its name, else by its number, which may name it, too.
fn image_above<'t>(lines: &'t [Cow<'_, str>], at: usize) -> Option<&'t str> {
    above(lines, at, &["image"]).or_else(|| above(lines, at, &["imageID"]))
}

fn below<'t>(lines: &'t [Cow<'_, str>], at: usize, most: usize, keys: &[&str]) -> Option<&'t str> {
    lines[at + 1..].iter().take(most).find_map(|line| value(line, keys))
}

/// The value of one of these keys; a digest names nothing.
fn value<'t>(line: &'t str, keys: &[&str]) -> Option<&'t str> {
    let (key, value) = pair(line)?;
    (keys.contains(&key) && !value.is_empty() && !value.starts_with("sha256:")).then_some(value)
}

/// `exitCode: 137`, `"exitCode": 137,`, and of a list the first: `- name: mysql`.
fn pair(line: &str) -> Option<(&str, &str)> {
    /// No line with such a pair is longer. By judgement.
    const LONGEST: usize = 400;
    if line.len() > LONGEST {
        return None;
    }
    let bare = line.trim().trim_start_matches("- ").trim_end_matches(',');
    let (key, value) = bare.split_once(':')?;
    Some((key.trim().trim_matches('"'), value.trim().trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use crate::recognise;

    fn says(text: &str) -> String {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    fn headlines(text: &str) -> Vec<String> {
        let found = spindoctor_rules::diagnose(&crate::window(&recognise("x", text))).findings;
        found.into_iter().map(|finding| finding.headline).collect()
    }

    const POD: &str = "apiVersion: v1\nkind: Pod\nstatus:\n  containerStatuses:\n  - containerID: containerd://aa\n    \
                       image: mysql:8.4\n    \
                       imageID: docker.io/library/mysql@sha256:1\n    lastState:\n      terminated:\n        \
                       containerID: containerd://bb\n        \
                       exitCode: 139\n        finishedAt: \"2024-05-02T09:01:40Z\"\n        reason: Error\n        \
                       startedAt: \"2024-05-02T08:01:40Z\"\n    name: db\n    ready: true\n    restartCount: 9\n    state:\n      \
                       running:\n        startedAt: \"2024-05-02T09:01:41Z\"\n";

    #[test]
    fn a_pod_in_yaml_says_how_its_server_ended() {
        let wanted = "The container db ended with code 139, and was restarted 9 times: it crashed (SIGSEGV)";
        assert_eq!(says(POD), wanted);
        assert!(headlines(POD)[0].starts_with("The server crashed"), "{:?}", headlines(POD));
        assert_eq!(says(&POD.replace("mysql", "redis")), "");
        assert_eq!(says(&POD.replace("139", "0")), "");
        let killed = POD.replace("139", "137").replace("Error", "OOMKilled");
        assert_eq!(
            headlines(&killed),
            ["The kernel killed the server: its control group had no memory left"]
        );
    }

    #[test]
    fn a_container_that_ends_again_and_again_does_not_start() {
        let text = "{\n    \"image\": \"mariadb:11.4\",\n    \"imageID\": \"x\",\n    \"lastState\": {\n        \
                    \"terminated\": {\n            \
                    \"exitCode\": 1,\n            \"reason\": \"Error\"\n        }\n    },\n    \"name\": \"db\",\n    \
                    \"restartCount\": 12,\n    \"state\": {\n        \"waiting\": {\n            \
                    \"reason\": \"CrashLoopBackOff\"\n        }\n    }\n},\n";
        let text = format!("This is the pod:\n{text}");
        assert!(
            says(&text).starts_with("The container db ended with code 1, and was restarted 12 times"),
            "{}",
            says(&text)
        );
        assert!(headlines(&text)[0].starts_with("The server does not start"), "{:?}", headlines(&text));
    }

    #[test]
    fn of_very_many_codes_the_first_are_looked_at() {
        let states = "exitCode: 1\nname: mysql\n".repeat(super::MOST + 5);
        let lines = super::with_names(states.lines().map(std::borrow::Cow::Borrowed).collect());
        assert_eq!(lines.iter().filter(|line| super::read(line).is_some()).count(), super::MOST);
    }

    #[test]
    fn what_docker_inspects_is_named_below_the_state() {
        let text = |killed: bool, image: &str| {
            format!(
                "[\n    {{\n        \"State\": {{\n            \"Status\": \"exited\",\n            \"OOMKilled\": {killed},\n            \
                 \"ExitCode\": 137\n        }},\n        \"Image\": \"sha256:aa\",\n        \"Name\": \"/shop\",\n        \
                 \"RestartCount\": 0,\n        \"Config\": {{\n            \"Image\": \"{image}\"\n        }}\n    }}\n]\n"
            )
        };
        let said = says(&text(false, "mariadb:11.4"));
        assert!(
            said.starts_with("The container shop ended with code 137: it was killed (SIGKILL)"),
            "{said}"
        );
        assert_eq!(says(&text(false, "redis:7")), "");
        let killed = headlines(&text(true, "mariadb:11.4"));
        assert_eq!(killed, ["The kernel killed the server: its control group had no memory left"]);
    }
}
