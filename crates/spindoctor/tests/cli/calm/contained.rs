//! A real server in a container: process 1 of pid, mount and network namespaces of its own, with its program, data and socket on a
//! file system that nobody else has mounted. It is examined from the host, and from within.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::{Conn, OptsBuilder};
use serde_json::Value;
use spindoctor_lab::load::Tables;
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{on_both, runtime_beside, start};
use crate::program::{json, spindoctor};
use crate::row_wait::RowWait;
use crate::stacks::may_not_profile;

const PATIENCE: Duration = Duration::from_secs(90);
/// Where everything of the server is, as it sees it.
const INSIDE: &str = "/mnt";

/// A server in its container. It ends with `unshare`, which ends when this is dropped.
struct Contained {
    unshare: Child,
    /// The server's process, by its number here.
    pid: u32,
}

impl Contained {
    /// The same as a server of the lab: its program, its data as they are at this moment, its options.
    fn like(server: &Server) -> Self {
        let asked = fs::read(format!("/proc/{}/cmdline", server.pid())).expect("it runs");
        let asked = String::from_utf8(asked).expect("UTF-8");
        let (program, options) = asked.split_once('\0').expect("it has options");
        let has_network = Command::new("ip").arg("-V").stdout(Stdio::null()).status().is_ok();
        let mut options: Vec<String> = options.split_terminator('\0').map(moved).collect();
        // Without `ip` its network has no address that it could listen on.
        options.extend((!has_network).then(|| "--skip-networking".to_owned()));
        let name = Path::new(program).file_name().expect("a program").to_string_lossy().into_owned();
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("data");
        // Files of one instant, as after a crash.
        server.pause(true);
        let copied = Command::new("cp").arg("--archive").arg(server.data()).arg(&copy).status();
        server.pause(false);
        assert!(copied.expect("cp runs").success());
        let script = format!(
            "mount -t tmpfs tmpfs {INSIDE} && cp --archive \"$1\" {INSIDE}/data && cp \"$2\" {INSIDE}/{name} || exit 1\n\
             ip link set lo up 2>/dev/null\n\
             shift 2; exec {INSIDE}/{name} \"$@\""
        );
        let unshare = Command::new("unshare")
            .args(["--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", &script, "sh"])
            .arg(&copy)
            .arg(program)
            .args(&options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut contained = Self { unshare, pid: 0 };
        contained.pid = contained.until("it has a child", |_, unshare| {
            let children = format!("/proc/{0}/task/{0}/children", unshare.id());
            fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
        });
        contained.until("it listens", |pid, _| socket(pid).exists().then_some(()));
        assert!(!Path::new(INSIDE).join("data").exists(), "the host does not have its files");
        contained
    }

    /// What this finds, once it does.
    fn until<T>(&mut self, what: &str, find: impl Fn(u32, &Child) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = find(self.pid, &self.unshare) {
                return found;
            }
            let ended = self.unshare.try_wait().expect("it is our child");
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let _gone = self.unshare.kill();
                let mut said = String::new();
                let _read = self.unshare.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
                panic!("not: {what}: {ended:?}: {said}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    async fn connect(&self) -> Conn {
        let options = OptsBuilder::default()
            .socket(Some(socket(self.pid).display().to_string()))
            .user(Some("root"))
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(28_800));
        let begun = Instant::now();
        loop {
            match Conn::new(options.clone()).await {
                Ok(conn) => return conn,
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _gone = self.unshare.kill();
        let _reaped = self.unshare.wait();
    }
}

/// Its socket, as the host sees it.
fn socket(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{INSIDE}/mysqld.sock"))
}

/// An option with its file below [`INSIDE`].
fn moved(option: &str) -> String {
    const FILES: [(&str, &str); 4] =
        [("--datadir=", "data"), ("--socket=", "mysqld.sock"), ("--pid-file=", "pid"), ("--tmpdir=", "")];
    let file = FILES.iter().find(|(name, _)| option.starts_with(name));
    file.map_or_else(|| option.to_owned(), |(name, file)| format!("{name}{INSIDE}/{file}"))
}

/// Any text in a JSON value that has one of these.
fn has(value: &Value, words: &[&str]) -> bool {
    let text = value.to_string();
    words.iter().any(|word| text.contains(word))
}

#[test]
fn a_server_in_a_container_is_examined_from_the_host_and_from_within() {
    if may_not_profile() {
        return;
    }
    on_both(|which| {
        let runtime = runtime_beside();
        let tables = Some(Tables { count: 1, rows: 10_000 });
        let spec = ServerSpec { which: which.clone(), tables, ..ServerSpec::default() };
        let server = runtime.block_on(start(&spec));
        let contained = Contained::like(&server);
        server.stop().expect("it stops");
        runtime.block_on(async {
            const CHANGE: &str = "UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = 1";
            let root = contained.connect().await;
            let connect = async || contained.connect().await;
            // They end with the server.
            let changes = [CHANGE; 3].map(str::to_owned);
            let row = RowWait::begin(root, connect, &["BEGIN", CHANGE], &changes).await;
            let holder = u64::from(row.holder.id());
            tokio::task::block_in_place(|| is_examined(&contained, &which, holder));
        });
    });
}

fn is_examined(contained: &Contained, which: &Which, holder: u64) {
    let pid = contained.pid;
    let on = format!("-u root -S {} --no-defaults", socket(pid).display());
    let begun = Instant::now();
    let locks = loop {
        let locks = json(&format!("locks --json {on}"));
        if locks["roots"][0]["waiting_in_all"] == 3 {
            break locks;
        }
        assert!(begun.elapsed() < PATIENCE, "{which:?}: {locks:#}");
    };
    let root = &locks["roots"][0];
    assert_eq!((&locks["pid"], &root["connection_id"]), (&pid.into(), &holder.into()), "{locks:#}");
    // The server says the number that the thread has in its own namespace.
    let thread = root["thread_os_id"].as_u64().unwrap_or_default();
    assert!(Path::new(&format!("/proc/{pid}/task/{thread}")).exists(), "{which:?}: {locks:#}");

    let diagnosis = json(&format!("doctor --json --duration 3s --fail-on never {on}"));
    assert_eq!(diagnosis["server"]["pid"], pid, "{which:?}: {diagnosis:#}");
    assert!(diagnosis["host"]["effective_cpus"].as_f64().is_some_and(|cpus| cpus > 0.0), "{diagnosis:#}");
    let finding = &diagnosis["findings"][0];
    assert_eq!(
        (&finding["cause"], &finding["root"]["connection_id"]),
        (&"row-lock-pileup".into(), &holder.into()),
        "{which:?}: {diagnosis:#}"
    );

    let stacks = json(&format!("stacks --json --duration 1s {on}"));
    assert_eq!(stacks["process"]["pid"], pid, "{which:?}");
    let accepts = ["handle_connections_sockets", "listen_for_connection_event"];
    assert!(
        has(&stacks["stacks"], &accepts),
        "{which:?}: the program in the container has names: {stacks:#}"
    );

    let cache = json(&format!("cache --json --duration 100ms {on}"));
    assert_eq!(cache["server"]["pid"], pid, "{which:?}");
    for kind in ["data", "redo"] {
        assert!(has(&cache["kinds"], &[&format!("\"kind\":\"{kind}\"")]), "{which:?}: {cache:#}");
    }

    // In there it is process 1, and a /proc of that namespace says so.
    let within = format!("mount -t proc proc /proc && exec \"$0\" \"$@\" -S {INSIDE}/mysqld.sock");
    let output = Command::new("nsenter")
        .args(["--target", &pid.to_string(), "--mount", "--pid", "--net", "sh", "-c", &within])
        .arg(spindoctor("").get_program())
        .args(["doctor", "--json", "--duration", "3s", "--fail-on", "never", "-u", "root", "--no-defaults"])
        .env("HOME", "/nonexistent")
        .output()
        .expect("nsenter runs");
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let diagnosis: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{notes}"));
    assert_eq!(diagnosis["server"]["pid"], 1, "{which:?}: {diagnosis:#}");
    assert_eq!(diagnosis["findings"][0]["cause"], "row-lock-pileup", "{which:?}: {diagnosis:#}");
}
