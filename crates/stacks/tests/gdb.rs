//! The frames of every thread of quiet servers, compared with gdb's.
//!
//! gdb, too, has nothing but `.eh_frame` and `.dynsym` of a stripped server. It stops the server, so ours are taken
//! before and after it: a thread that moved meanwhile has gdb's frames in one of the two.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::stack::StackEnd;
use spindoctor_stacks::capture::{self, Capture, RawStack};
use spindoctor_stacks::module::Modules;
use spindoctor_stacks::names::Names;
use spindoctor_stacks::unwind::{Copied, Unwinder};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/gdb_frames.py");

/// Idle clients, as large pools hold them: enough that a background thread of the server that wakes up just while gdb
/// looks is less than one in a hundred.
const CONNECTIONS: usize = 250;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    /// The pc or the return address.
    address: u64,
    inlined: bool,
    /// None where it has no name.
    name: Option<String>,
}

impl Call {
    fn new(address: u64, inlined: bool, name: Option<&str>) -> Self {
        Self { address, inlined, name: name.map(normalised) }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { address, inlined, name } = self;
        let name = name.as_deref().unwrap_or("??");
        write!(formatter, "{address:#x} {name}{}", if *inlined { " (inlined)" } else { "" })
    }
}

/// A name without what two demanglers write differently: blanks, and what stands in brackets (`1l`, `(long)1`).
fn normalised(name: &str) -> String {
    let mut depth = 0;
    let mut kept = String::new();
    for character in name.chars().filter(|character| !character.is_ascii_whitespace()) {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            _ if depth == 0 => kept.push(character),
            _ => (),
        }
    }
    kept
}

type Calls = BTreeMap<u32, Vec<Call>>;

fn gdbs_of(pid: u32) -> Calls {
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"])
        .args(["-iex", "set print thread-events off"])
        .args(["-p", &pid.to_string(), "-x", SCRIPT])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut threads = Calls::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        // A function that jumped to another instead of calling it is not on the stack: gdb concludes that from
        // debug information.
        if let ["frame", tid, pc, kind, name] = fields[..]
            && kind != "jumped"
        {
            let address = u64::from_str_radix(pc.trim_start_matches("0x"), 16).unwrap();
            let name = (name != "??").then_some(name);
            threads.entry(tid.parse().unwrap()).or_default().push(Call::new(
                address,
                kind == "inlined",
                name,
            ));
        }
    }
    assert!(!threads.is_empty(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    threads
}

struct Ours {
    capture: Box<dyn Capture>,
    modules: Modules,
    unwinder: Unwinder,
    names: Names,
    last: HashMap<u32, (Vec<Call>, StackEnd)>,
}

impl Ours {
    fn of_process(pid: u32) -> spindoctor_stacks::Result<Self> {
        let (capture, notes) = capture::open(pid, None)?;
        println!("{:?} {notes:?}", capture.source());
        Ok(Self {
            capture,
            modules: Modules::of_process(pid)?,
            unwinder: Unwinder::new(),
            names: Names::new(),
            last: HashMap::new(),
        })
    }

    fn snapshot(&mut self) -> HashMap<u32, (Vec<Call>, StackEnd)> {
        let snapshot = self.capture.snapshot().unwrap();
        for thread in &snapshot.threads {
            let (registers, start, bytes, whole) = match (&thread.registers, &thread.stack) {
                (Some(registers), RawStack::Copied { start, bytes, whole }) => {
                    (registers, start, bytes, whole)
                }
                (_, RawStack::Unmoved) => continue,
                other => {
                    println!("{} {}: {other:?}", thread.tid, thread.name);
                    self.last.remove(&thread.tid);
                    continue;
                }
            };
            let mut addresses = Vec::new();
            let copied = Copied { start: *start, bytes: &snapshot.stacks[bytes.clone()], whole: *whole };
            let end = self.unwinder.walk(&mut self.modules, registers, copied, &mut addresses);
            let mut calls = Vec::new();
            for (index, &address) in addresses.iter().enumerate() {
                let is_return = index > 0 && !self.unwinder.interrupted().contains(&index);
                for frame in self.names.frames(&mut self.modules, address, is_return) {
                    let unnamed = frame.name.contains("+0x") || frame.name.starts_with('[');
                    let name = (!unnamed).then(|| frame.full_name.as_ref().unwrap_or(&frame.name).as_str());
                    calls.push(Call::new(address, frame.inlined, name));
                }
            }
            self.last.insert(thread.tid, (calls, end));
        }
        self.last.clone()
    }
}

async fn frames_are_those_of_gdb(which: Which) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: looking at a server of another user needs root");
        return;
    }
    let home = Home::open().unwrap();
    let options = vec!["--max-connections=400".to_owned()];
    let spec = ServerSpec { which, options, ..ServerSpec::default() };
    let server = Server::start(&home, &spec, &|line| println!("{line}")).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(server.connect().await.unwrap());
    }
    let mut ours = Ours::of_process(server.pid()).unwrap();
    let before = ours.snapshot();
    let mut gdbs = gdbs_of(server.pid());
    let after = ours.snapshot();
    assert!(gdbs.len() > CONNECTIONS, "{} threads", gdbs.len());
    // Those of io_uring's worker, a kernel thread of the process, are none.
    gdbs.retain(|_, calls| calls[0].address != 0);
    let mut equal = 0;
    let mut frames = 0;
    for (tid, gdbs) in &gdbs {
        let either = [before.get(tid), after.get(tid)];
        if either.iter().flatten().any(|(calls, _)| calls == gdbs) {
            equal += 1;
            frames += gdbs.len();
            continue;
        }
        println!("thread {tid} differs; gdb:");
        for call in gdbs {
            println!("  {call}");
        }
        for (when, ours) in ["before", "after"].iter().zip(either) {
            let Some((calls, end)) = ours else {
                println!(" ours {when}: none");
                continue;
            };
            println!(" ours {when}: {end:?}");
            for call in calls {
                println!("  {call}");
            }
        }
    }
    println!("{equal} of {} threads are equal, with {frames} frames", gdbs.len());
    assert!(equal * 100 >= gdbs.len() * 99, "{equal} of {} threads have gdb's frames", gdbs.len());
    drop(clients);
    server.stop().unwrap();
}

#[tokio::test]
async fn the_frames_of_a_quiet_mysql_are_those_of_gdb() {
    frames_are_those_of_gdb(Which::Mysql).await;
}

#[tokio::test]
async fn the_frames_of_a_quiet_mariadb_are_those_of_gdb() {
    frames_are_those_of_gdb(Which::Mariadb).await;
}
