//! How the container or the pod of a server is: ended, and with which code; started again and again. By `docker ps -a`, `kubectl get pods`,
//! `kubectl describe pod` and k9s.
//!
//! ```text
//! CONTAINER ID   IMAGE       COMMAND                  CREATED      STATUS                        PORTS     NAMES
//! 7a1b2c3d4e5f   mysql:8.4   "docker-entrypoint.s…"   5 days ago   Exited (137) 16 minutes ago             shop-mysql
//!
//! NAME      READY   STATUS             RESTARTS       AGE
//! mysql-0   0/1     CrashLoopBackOff   112 (2m ago)   31d
//!
//!   mysql:
//!     Image:          mysql:8.4
//!     Last State:     Terminated
//!       Exit Code:    1
//!     Restart Count:  47
//! ```

use spindoctor_model::{TroubleKind, number};

use crate::amounts::amount;
use crate::container_status;
use crate::kernel_log::is_name_of_server;
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// So many restarts of a pod that runs are worth a sentence. By judgement: one is what a new version takes, and one a new node.
const RESTARTS: f64 = 3.0;
/// What a container uses of what it may have, from which on that is worth a sentence, percent. By judgement.
const NEARLY_ALL_PERCENT: f64 = 90.0;

/// The longest row that is looked at, bytes.
const LONGEST: usize = 1_000;

/// True for a line with which such a text may begin.
pub(crate) fn is_line(line: &str) -> bool {
    let bare = line.trim();
    bare == "Containers:"
        || bare.starts_with("Last State:")
        || is_head_of_pods(line)
        || line.contains("CONTAINER ID") && line.contains("STATUS")
        || ended(line).is_some()
        || pod(line).is_some()
        || container_status::read(line).is_some()
        || is_event(line) && is_name_of_server(&line.to_ascii_lowercase())
}

/// Says what is wrong with those of servers.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    for line in text.lines().take(MOST_ROWS) {
        if let Some(Ended { name, code, again, ago }) = ended(line) {
            let (why, kind) = meaning(code, again);
            let sentence = match again {
                true => {
                    format!("The container {name} ends and is started again and again (code {code}): {why}")
                }
                false => format!("The container {name} ended {ago} with code {code}: {why}"),
            };
            found.add("docker ps", kind, sentence);
        }
        if let Some(ended) = container_status::read(line) {
            let container_status::Ended { name, image, code, restarts, is_waiting } = ended;
            let exit_code = Some(code);
            let container = Described { name, image, is_waiting, exit_code, ..Described::default() };
            say_of(&container, restarts, found);
        }
    }
    pods(text, found);
    described(text, found);
    events(text, found);
}

/// What the code means with which a container ended, and the trouble that it is.
fn meaning(code: u32, again: bool) -> (&'static str, Option<TroubleKind>) {
    match code {
        0 => ("it ended in order", None),
        134 => ("it ended itself after a failed check (SIGABRT)", Some(TroubleKind::Crashed)),
        137 => (
            "it was killed (SIGKILL), by the kernel for want of memory, by what stopped the container and did not wait, or by somebody",
            None,
        ),
        139 => ("it crashed (SIGSEGV)", Some(TroubleKind::Crashed)),
        143 => ("it was stopped (SIGTERM)", None),
        _ => ("its log says why", again.then_some(TroubleKind::NotStarted)),
    }
}

/// A row of `docker ps -a` of a server's container that does not run.
struct Ended<'t> {
    name: &'t str,
    code: u32,
    again: bool,
    /// `16 minutes ago`
    ago: String,
}

fn ended(line: &str) -> Option<Ended<'_>> {
    let (begin, again) = [("Exited (", false), ("Restarting (", true)]
        .into_iter()
        .find_map(|(sign, again)| Some((line.find(sign)? + sign.len(), again)))?;
    let (code, rest) = line[begin..].split_once(')')?;
    let code = code.parse().ok()?;
    let words: Vec<&str> = rest.split_whitespace().take(MOST_WORDS).collect();
    let end = words.iter().position(|word| *word == "ago")?;
    let name = words[end + 1..].last().copied().or_else(|| line.split_whitespace().next())?;
    let ago = words[..=end].join(" ");
    is_name_of_server(&line.to_ascii_lowercase()).then_some(Ended { name, code, again, ago })
}

/// A row of `kubectl get pods`, or of k9s.
struct Pod<'t> {
    name: &'t str,
    status: &'t str,
    restarts: f64,
}

fn is_head_of_pods(line: &str) -> bool {
    ["NAME", "READY", "STATUS", "RESTARTS"].iter().all(|name| line.contains(name))
}

/// The words of a row, without the frame that k9s draws.
fn words(line: &str) -> Vec<&str> {
    let bare = line.trim_matches(['|', '\u{2502}', ' ']);
    bare.split_whitespace().take(MOST_WORDS).collect()
}

fn pod(line: &str) -> Option<Pod<'_>> {
    if line.len() > LONGEST || !line.contains('/') {
        return None;
    }
    let words = words(line);
    // Of its containers so many are ready: no date.
    let is_ready = |word: &&str| {
        let number =
            |part: &str| part.parse::<u8>().ok().filter(|_| part == "0" || !part.starts_with(['0', '+']));
        let numbers = word.split_once('/').and_then(|(some, all)| number(some).zip(number(all)));
        numbers.is_some_and(|(some, all)| some <= all && all > 0)
    };
    let ready = words.iter().position(is_ready)?;
    let status = *words.get(ready + 1)?;
    let restarts = amount(words.get(ready + 2)?)?;
    // Beside its name k9s has a mark.
    let name = *words[..ready].iter().rev().find(|word| word.is_ascii())?;
    let is_status = status.starts_with(|c: char| c.is_ascii_uppercase());
    (is_status && is_name_of_server(&name.to_ascii_lowercase())).then_some(Pod { name, status, restarts })
}

fn pods(text: &str, found: &mut SystemText) {
    let mut columns: Vec<&str> = Vec::new();
    for line in text.lines().take(MOST_ROWS) {
        if is_head_of_pods(line) {
            columns = words(line);
            continue;
        }
        let Some(Pod { name, status, restarts }) = pod(line) else { continue };
        let times = number::counted(restarts as u64, "restart", "restarts");
        let (sentence, kind) = match status {
            "CrashLoopBackOff" => (
                format!(
                    "The pod {name} ends and is started again and again (CrashLoopBackOff, {times}): kubectl logs --previous says why"
                ),
                Some(TroubleKind::NotStarted),
            ),
            "Error" => (format!("The pod {name} ended with an error: kubectl logs says why"), None),
            "Evicted" => {
                (format!("Kubernetes evicted the pod {name}: its node was short of memory or of space"), None)
            }
            "Pending" => (
                format!("The pod {name} does not run yet (Pending): kubectl describe says what it waits for"),
                None,
            ),
            "ImagePullBackOff" | "ErrImagePull" => {
                (format!("The pod {name} does not run: its image cannot be pulled"), None)
            }
            "Running" if restarts >= RESTARTS => {
                (format!("The pod {name} runs after {times}: kubectl describe says how it ended last"), None)
            }
            _ => (String::new(), None),
        };
        if !sentence.is_empty() {
            found.add("kubectl get pods", kind, sentence);
        }
        of_limits(name, &columns, &words(line), found);
    }
}

/// What k9s shows of a pod's use of what it may have, where that is nearly all.
fn of_limits(name: &str, columns: &[&str], row: &[&str], found: &mut SystemText) {
    if columns.len() != row.len() {
        return;
    }
    let percent = |column: &str| amount(row.get(columns.iter().position(|name| *name == column)?)?);
    for (column, what) in [("%CPU/L", "CPUs"), ("%MEM/L", "memory")] {
        if let Some(percent) = percent(column).filter(|percent| *percent >= NEARLY_ALL_PERCENT) {
            let sentence = format!("The pod {name} uses {percent:.0} % of the {what} that it may");
            found.add("k9s", None, sentence);
        }
    }
}

/// Reasons of events that keep a pod from starting: `Warning  FailedScheduling  4m (x22 over 109m)  default-scheduler  0/3 nodes are ...`.
const OF_START: [&str; 3] = ["FailedScheduling", "FailedMount", "FailedAttachVolume"];

/// What their messages have, and what that means. The first that fits counts.
const WAITS_FOR: [(&str, &str); 10] = [
    (
        "unbound immediate PersistentVolumeClaims",
        "its volume is not there yet (an unbound PersistentVolumeClaim): kubectl describe pvc says why (no StorageClass, no volume that fits, \
         or its provisioner fails)",
    ),
    ("persistentvolumeclaim \"", "its PersistentVolumeClaim is not there: kubectl get pvc"),
    (
        "had volume node affinity conflict",
        "its volume is bound to a node or a zone where no node may take it: kubectl describe pv",
    ),
    ("Insufficient memory", "no node has the memory free that it asks for (resources.requests.memory)"),
    ("Insufficient cpu", "no node has the CPUs free that it asks for (resources.requests.cpu)"),
    (
        "anti-affinity rules",
        "its anti-affinity leaves no node: there are fewer nodes than pods that may not share one",
    ),
    ("untolerated taint", "the nodes have taints that it does not tolerate"),
    (
        "Multi-Attach error for volume",
        "its volume is still attached to another node: where that node is down, kubectl get volumeattachment shows it",
    ),
    ("Unable to attach or mount volumes", "its volume cannot be attached or mounted"),
    ("MountVolume.", "its volume cannot be mounted"),
];

/// True for a line of such an event.
fn is_event(line: &str) -> bool {
    line.len() <= LONGEST && line.split_whitespace().take(MOST_WORDS).any(|word| OF_START.contains(&word))
}

/// Says what a server's pod waits for that does not start. Of a description the lines above its containers may not be here.
fn events(text: &str, found: &mut SystemText) {
    let mut pod = "";
    // The last line with nothing but a name, and the name of the server's container.
    let (mut name, mut container) = ("", "");
    for line in text.lines().take(MOST_ROWS) {
        let bare = line.trim();
        if let Some(named) = line.strip_prefix("Name:") {
            (pod, container) = (named.trim(), "");
        } else if let Some(begins) = bare.strip_suffix(':').filter(|begins| !begins.contains([' ', ':'])) {
            name = begins;
        } else if let Some(image) = bare.strip_prefix("Image:") {
            if is_name_of_server(&format!("{name} {image}").to_ascii_lowercase()) {
                container = name;
            }
        } else if is_event(bare) {
            // In a list of events the pod stands before the message.
            let of_line = bare.split_whitespace().take(MOST_WORDS).find_map(|word| word.strip_prefix("pod/"));
            let subject = match of_line {
                Some(pod) if is_name_of_server(&pod.to_ascii_lowercase()) => format!("The pod {pod}"),
                None if !container.is_empty() && !pod.is_empty() => format!("The pod {pod}"),
                None if !container.is_empty() => format!("The pod of the container {container}"),
                _ => continue,
            };
            if let Some((_, why)) = WAITS_FOR.iter().find(|(sign, _)| bare.contains(sign)) {
                found.add("events of Kubernetes", None, format!("{subject} does not start: {why}"));
            }
        }
    }
}

/// What `kubectl describe pod` says of a container, as far as the lines go.
#[derive(Default)]
struct Described<'t> {
    name: &'t str,
    image: &'t str,
    is_waiting: bool,
    reason: &'t str,
    exit_code: Option<u32>,
}

fn described(text: &str, found: &mut SystemText) {
    let mut container = Described::default();
    // The last line with nothing but a name.
    let mut name = "";
    // The server's container that was killed, whose probes stand below it.
    let mut killed: Option<&str> = None;
    for line in text.lines().map(str::trim).take(MOST_ROWS) {
        let value = |label: &str| line.strip_prefix(label).map(str::trim);
        if let Some(bare) = line.strip_suffix(':').filter(|bare| !bare.contains([' ', ':'])) {
            name = bare;
        } else if value("Container ID:").is_some() {
            container = Described { name, ..Described::default() };
        } else if let Some(image) = value("Image:") {
            // The line with its id may not have been copied.
            if container.name.is_empty() && name != "Containers" {
                container.name = name;
            }
            container.image = image;
        } else if let Some(state) = value("State:") {
            container.is_waiting = state == "Waiting";
        } else if value("Last State:").is_some() {
            (container.reason, container.exit_code) = ("", None);
        } else if let Some(reason) = value("Reason:") {
            container.reason = reason;
        } else if let Some(code) = value("Exit Code:") {
            container.exit_code = code.parse().ok();
        } else if let Some(count) = value("Restart Count:") {
            let count = count.parse().unwrap_or(0);
            say_of(&container, count, found);
            killed = (count > 0 && container.is_killed()).then_some(container.name);
            container = Described::default();
        } else if let Some((name, patience_s)) = killed.zip(value("Liveness:").and_then(patience_s)) {
            let sentence = format!(
                "Its liveness probe ends the container {name} where it does not answer {} after its start (delay and period x failureThreshold): a \
                 recovery that takes longer needs a startupProbe",
                number::tenths(patience_s)
            );
            found.add("kubectl describe", None, sentence);
        }
    }
    say_of(&container, 0, found);
}

impl Described<'_> {
    fn is_server(&self) -> bool {
        is_name_of_server(&format!("{} {}", self.name, self.image).to_ascii_lowercase())
    }

    /// A signal ended it, and not because of its memory.
    fn is_killed(&self) -> bool {
        self.is_server() && matches!(self.exit_code, Some(137 | 143)) && self.reason != "OOMKilled"
    }
}

/// How long a probe waits from the start of a container on, until it has failed so often that Kubernetes ends it, seconds: of `exec [mysqladmin
/// ping] delay=30s timeout=5s period=10s #success=1 #failure=3`.
fn patience_s(probe: &str) -> Option<f64> {
    let number = |name: &str| {
        let word = probe.split_whitespace().find_map(|word| word.strip_prefix(name))?;
        word.trim_end_matches('s').parse::<f64>().ok()
    };
    Some(number("delay=")? + number("period=")? * number("#failure=")?)
}

fn say_of(container: &Described<'_>, restarts: u64, found: &mut SystemText) {
    let is_server = container.is_server();
    // A part of the text may not have the name.
    let is_nameless = container.name.is_empty() && container.image.is_empty();
    let Some(code) = container.exit_code.filter(|_| is_server || is_nameless) else { return };
    let (why, kind) = meaning(code, container.is_waiting);
    let name = if is_nameless { String::new() } else { format!(" {}", container.name) };
    // What killed it is said where Kubernetes says it.
    let why =
        if container.reason == "OOMKilled" { "it reached the limit of its memory (OOMKilled)" } else { why };
    let again = match restarts {
        0 => String::new(),
        _ => format!(", and was restarted {}", number::counted(restarts, "time", "times")),
    };
    let sentence = format!("The container{name} ended with code {code}{again}: {why}");
    found.add("kubectl describe", kind.filter(|_| is_server), sentence);
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

    #[test]
    fn a_container_that_ended_says_how() {
        let head = "CONTAINER ID   IMAGE       COMMAND                  CREATED        STATUS                            PORTS     NAMES\n";
        let row = "7a1b2c3d4e5f   mysql:8.4   \"docker-entrypoint.s…\"   5 days ago     Exited (137) 16 minutes ago                 shop-mysql\n";
        let wanted = "The container shop-mysql ended 16 minutes ago with code 137: it was killed (SIGKILL)";
        assert!(says(&format!("{head}{row}")).contains(wanted), "{}", says(row));
        assert!(says(&format!("It is gone:\n\n{row}")).contains(wanted), "{}", says(row));
        let without_name = row.replace("shop-mysql", "");
        assert!(says(&without_name).contains("The container 7a1b2c3d4e5f ended"), "{}", says(&without_name));
        assert_eq!(says(&format!("{head}{}", row.replace("mysql", "redis"))), "");
        assert_eq!(
            says(&format!("{head}{}", row.replace("Exited (137) 16 minutes ago", "Up 16 minutes"))),
            ""
        );
        let again = row.replace("Exited (137) 16 minutes ago", "Restarting (1) 9 seconds ago");
        assert!(headlines(&again)[0].starts_with("The server does not start"), "{again}");
    }

    #[test]
    fn pods_that_do_not_run_and_limits_that_are_nearly_reached_are_said() {
        let pods = "NAME      READY   STATUS             RESTARTS       AGE\nmysql-0   0/1     CrashLoopBackOff   112 (2m ago)   31d\n\
                    mysql-1   1/1     Running            0              31d\nweb-0     0/1     CrashLoopBackOff   9              3d\n";
        let said = says(pods);
        assert!(
            said.starts_with(
                "The pod mysql-0 ends and is started again and again (CrashLoopBackOff, 112 restarts)"
            ),
            "{said}"
        );
        assert!(!said.contains("mysql-1") && !said.contains("web-0"), "{said}");
        assert!(headlines(pods)[0].starts_with("The server does not start"), "{said}");
        let k9s = "┌──────────────────────── Pods(prod)[2] ────────────────────────┐\n\
                   │ NAME↑    PF READY STATUS  RESTARTS CPU  MEM  %CPU/R %CPU/L %MEM/R %MEM/L IP         NODE  AGE │\n\
                   │ mysql-0  ●  1/1   Running       14 1998 8011     99     40     97     97 10.42.1.19 node3 31d │\n\
                   │ web-7d4f ●  1/1   Running        0   12  120      1     99      9     99 10.42.2.12 node1 3d  │\n\
                   └───────────────────────────────────────────────────────────────┘\n";
        let wanted = "The pod mysql-0 runs after 14 restarts: kubectl describe says how it ended last; The pod mysql-0 uses 97 % of the \
                      memory that it may";
        assert_eq!(says(k9s), wanted);
        // A month and a day.
        assert_eq!(says("mysql 03/04 Error 1045 denied\n"), "");
    }

    #[test]
    fn a_pod_that_is_not_scheduled_says_what_it_waits_for() {
        let described = |message: &str| {
            format!(
                "Name:           mysql-shop-2\nNamespace:      prod\nStatus:         Pending\nContainers:\n  mysql:\n    Image:      mysql:8.4\n\
                 Events:\n  Type     Reason            Age                  From               Message\n  \
                 ----     ------            ----                 ----               -------\n  \
                 Warning  FailedScheduling  4m (x22 over 109m)   default-scheduler  0/3 nodes are available: {message}\n"
            )
        };
        for (message, wanted) in [
            ("pod has unbound immediate PersistentVolumeClaims.", "its volume is not there yet"),
            (
                "persistentvolumeclaim \"data-mysql-shop-2\" not found.",
                "its PersistentVolumeClaim is not there",
            ),
            ("3 node(s) had volume node affinity conflict.", "its volume is bound to a node"),
            ("3 Insufficient memory.", "no node has the memory free"),
            ("3 node(s) didn't match pod anti-affinity rules.", "its anti-affinity leaves no node"),
        ] {
            let said = says(&described(message));
            assert!(
                said.starts_with(&format!("The pod of the container mysql does not start: {wanted}")),
                "{said}"
            );
            assert_eq!(says(&described(message).replace("mysql", "redis")), "");
        }
        let listed = "4m   Warning   FailedAttachVolume   pod/mysql-0   Multi-Attach error for volume \"pvc-1\" Volume is already used\n";
        assert!(
            says(listed).starts_with("The pod mysql-0 does not start: its volume is still attached"),
            "{}",
            says(listed)
        );
        assert_eq!(says(&listed.replace("mysql", "web")), "");
    }

    #[test]
    fn what_runs_beside_a_server_is_no_server_that_does_not_start() {
        let head = "NAME   READY   STATUS   RESTARTS   AGE\nmysql-0   1/1   Running   0   31d\n";
        for name in ["mysqld-exporter-7d", "mysql-backup-283", "mariadb-operator-1", "mysql-router-0"] {
            for status in ["CrashLoopBackOff", "Error"] {
                assert_eq!(says(&format!("{head}{name}   0/1   {status}   12   3d\n")), "", "{name}");
            }
            let row = format!(
                "7a1b2c3d4e5f   x/{name}   \"/bin/x\"   5 days ago   Restarting (1) 9 seconds ago   {name}\n"
            );
            let list = format!("CONTAINER ID   IMAGE   COMMAND   CREATED   STATUS   PORTS   NAMES\n{row}");
            assert_eq!((says(&list), headlines(&list)), (String::new(), Vec::new()), "{name}");
            let described = format!(
                "Containers:\n  {name}:\n    Container ID:   containerd://f2\n    Image:          {name}:1\n    \
                 State:          Waiting\n    Last State:     Terminated\n      Exit Code:    1\n    Restart Count:  9\n"
            );
            assert_eq!(says(&described), "", "{name}");
        }
    }

    #[test]
    fn a_described_container_says_how_it_ended() {
        let text = "Name:         shop-db-0\nNamespace:    prod\nContainers:\n  mariadb:\n    Container ID:   containerd://f22858\n    \
                    Image:          mariadb:11.4\n    State:          Waiting\n      Reason:       CrashLoopBackOff\n    \
                    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    1\n    Ready:          False\n    \
                    Restart Count:  47\n";
        assert!(
            says(text).contains(
                "The container mariadb ended with code 1, and was restarted 47 times: its log says why"
            ),
            "{}",
            says(text)
        );
        assert!(headlines(text)[0].starts_with("The server does not start"), "{}", says(text));
        assert_eq!(says(&text.replace("mariadb", "redis")), "");
        let runs = text.replace("Exit Code:    1", "Exit Code:    0");
        assert!(headlines(&runs).is_empty(), "{}", says(&runs));
        let probe = "    Liveness:       exec [mysqladmin ping] delay=30s timeout=5s period=10s #success=1 #failure=3\n";
        let killed = format!("{}{probe}", text.replace("Exit Code:    1", "Exit Code:    137"));
        let wanted =
            "Its liveness probe ends the container mariadb where it does not answer 60 s after its start";
        assert!(says(&killed).contains(wanted), "{}", says(&killed));
        for other in [killed.replace("mariadb", "redis"), killed.replace("  Error", "  OOMKilled")] {
            assert!(!says(&other).contains("liveness probe"), "{}", says(&other));
        }
        assert!(!says(&format!("{text}{probe}")).contains("liveness probe"));
        let without_id = text.replace("    Container ID:   containerd://f22858\n", "");
        assert!(
            says(&without_id).contains("The container mariadb ended with code 1"),
            "{}",
            says(&without_id)
        );
        let part = "Last State:     Terminated\n  Reason:       Error\n  Exit Code:    139\n";
        assert!(says(part).contains("The container ended with code 139: it crashed"), "{}", says(part));
        assert!(headlines(part).is_empty());
    }
}
