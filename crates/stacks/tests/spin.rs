//! CPU samples of a program that spins in known functions and works in another: distinguished by their code.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use spindoctor_model::Profile;
use spindoctor_model::stack::{Spin, StackSource, ThreadState};
use spindoctor_stacks::aggregate::{frame_names, spin_share, spinners};
use spindoctor_stacks::disassembly::{Line, disassemble};
use spindoctor_stacks::spin::Architecture;
use spindoctor_stacks::{Error, Profiler, ProfilerOptions, Taken};
use tempfile::TempDir;

/// The program, which ends when its standard input does.
struct Spinning {
    child: Child,
    _folder: TempDir,
}

impl Spinning {
    fn start(strip: bool) -> Self {
        Self::start_by(strip, &[])
    }

    /// Starts it on one CPU: whatever else runs, its three threads have the same share of that CPU's time.
    fn start_on_one_cpu() -> Self {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
        Self::start_by(false, &["taskset", "-c", &cpu.to_string()])
    }

    fn start_by(strip: bool, how: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("spin");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/spin.c");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source);
        if strip {
            cc.arg("-s");
        }
        assert!(cc.status().unwrap().success());
        let mut words = how.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, _folder: folder }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Samples until `enough`; none, and says why, where the machine does not let us.
fn sample(pid: u32, enough: &dyn Fn(&Profile) -> bool) -> Option<Profile> {
    let source = Some(StackSource::Cpu);
    let options = ProfilerOptions { source, hz: 499.0, code: true, ..ProfilerOptions::default() };
    let mut profiler = match Profiler::start(pid, options) {
        Ok(profiler) => profiler,
        Err(error @ Error::Unavailable { .. }) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        profiler.rest(Instant::now() + profiler.interval());
        assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        let profile = profiler.profile();
        if enough(&profile) {
            return Some(profile);
        }
        assert!(
            Instant::now() < deadline,
            "{} samples only: {:?} {:?}",
            profile.observations.len(),
            by_function(&profile),
            profile.notes
        );
    }
}

/// By the innermost function: samples in all, and those that spun.
fn by_function(profile: &Profile) -> BTreeMap<String, (usize, usize)> {
    let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for sample in &profile.observations {
        // In user space: what the kernel did meanwhile, ticks and the like, spins for nobody.
        let names = frame_names(profile, sample.stack);
        let kernel =
            profile.stacks[sample.stack as usize].frames.iter().any(|&at| profile.frames[at as usize].kernel);
        if let Some(name) = names.first().filter(|_| !kernel) {
            let (all, spinning) = found.entry((*name).to_owned()).or_default();
            *all += 1;
            *spinning += usize::from(sample.spin == Some(Spin::User));
        }
    }
    found
}

#[test]
fn samples_spin_in_the_functions_that_spin_and_nowhere_else() {
    let spinning = Spinning::start(false);
    let known = ["spin_on_flag", "delay", "work"];
    let Some(profile) = sample(spinning.pid(), &|profile| {
        let found = by_function(profile);
        known.iter().all(|name| found.get(*name).is_some_and(|(all, _)| *all >= 100))
    }) else {
        return;
    };
    let found = by_function(&profile);
    for name in ["spin_on_flag", "delay"] {
        assert_eq!(found[name].0, found[name].1, "{found:?}");
    }
    if let Some((all, spinning)) = found.get("spin_with_delay") {
        assert_eq!(all, spinning, "{found:?}");
    }
    assert_eq!(found["work"].1, 0, "{found:?}");

    let share = spin_share(&profile).unwrap();
    let spun = found.values().map(|(_, spinning)| spinning).sum::<usize>();
    assert_eq!(share.samples, profile.observations.len() as u64);
    assert!((share.user - spun as f64 / share.samples as f64).abs() < 1e-9, "{share:?}");

    let found = spinners(&profile);
    let delay = found.iter().find(|spinner| spinner.function == "delay").unwrap();
    assert!(delay.callers[0].0.starts_with("spin_with_delay < delay_thread < "), "{delay:?}");
    assert!(profile.observations.iter().all(|sample| sample.state == ThreadState::Running));
    assert!(profile.process_cpu_us > 0 && profile.own_cpu_us > 0);
    assert_eq!(profile.threads.len(), 3, "{:?}", profile.threads);

    // The functions' code is kept, and each sample is at one of its instructions.
    let code: Vec<Vec<Line>> = profile
        .code
        .iter()
        .map(|code| disassemble(Architecture::HOST, code.address, &code.bytes()))
        .collect();
    let instructions: BTreeSet<u64> = code.iter().flatten().map(|line| line.address).collect();
    for sample in &profile.observations {
        let leaf = &profile.frames[profile.stacks[sample.stack as usize].frames[0] as usize];
        if known.contains(&leaf.name.as_str()) {
            assert!(instructions.contains(&leaf.address), "{leaf:?} is in none of {code:?}");
        }
    }
    let waits = code.iter().filter(|lines| lines.iter().any(|line| line.is_pause)).count();
    assert!(waits >= 2, "{code:?}");
}

#[test]
fn spinning_is_seen_in_a_stripped_program() {
    let spinning = Spinning::start(true);
    let Some(profile) = sample(spinning.pid(), &|profile| profile.observations.len() >= 600) else { return };
    let threads = |spin: Option<Spin>| {
        let user = |stack: u32| {
            !profile.stacks[stack as usize].frames.iter().any(|&at| profile.frames[at as usize].kernel)
        };
        let seen = profile.observations.iter().filter(|sample| sample.spin == spin && user(sample.stack));
        seen.map(|sample| sample.thread).collect::<BTreeSet<u32>>()
    };
    assert!(!profile.code.is_empty(), "it needs no symbols");
    let (spins, works) = (threads(Some(Spin::User)), threads(None));
    assert_eq!((spins.len(), works.len()), (2, 1), "{spins:?} {works:?}");
    assert!(spins.is_disjoint(&works));
}

#[test]
fn a_process_that_ends_leaves_the_profile_so_far() {
    let mut spinning = Spinning::start(false);
    let options = ProfilerOptions { source: Some(StackSource::Cpu), hz: 499.0, ..ProfilerOptions::default() };
    let Ok(mut profiler) = Profiler::start(spinning.pid(), options) else {
        println!("skipped: it needs root or CAP_PERFMON");
        return;
    };
    profiler.rest(Instant::now() + profiler.interval());
    assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
    drop(spinning.child.stdin.take());
    spinning.child.wait().unwrap();
    assert_eq!(profiler.snapshot().unwrap(), Taken::ProcessGone);
    assert_eq!(profiler.snapshot().unwrap(), Taken::ProcessGone);
    let profile = profiler.finish();
    assert!(profile.notes.iter().any(|note| note.contains("ended after")), "{:?}", profile.notes);
    assert!(!profile.snapshots.is_empty());
}

#[test]
fn there_is_no_profile_of_a_process_that_is_not_there() {
    let gone = Command::new("true").spawn().unwrap();
    let pid = gone.id();
    gone.wait_with_output().unwrap();
    assert!(
        matches!(Profiler::start(pid, ProfilerOptions::default()), Err(Error::NoProcess(id)) if id == pid)
    );
}

/// The samples that `perf annotate` shows in loops with a PAUSE: from where a jump back leads to that jump.
fn annotated_spinning(text: &str) -> f64 {
    let mut found = 0.0;
    // ` Percent |	Source code & Disassembly of spin for cpu-clock (1407 samples, percent: local period)`
    for function in text.split(" Percent |").skip(1) {
        let head = function.split_once(" samples, percent: local period)").unwrap().0;
        let samples: f64 = head.rsplit_once('(').unwrap().1.parse().unwrap();
        let instructions: Vec<_> = function.lines().filter_map(instruction).collect();
        let mut spins = vec![false; instructions.len()];
        for (jump, (_, _, text)) in instructions.iter().enumerate() {
            // `jne    12a0 <delay+0x10>`
            let target = text.split_whitespace().skip(1).find_map(|word| u64::from_str_radix(word, 16).ok());
            let Some(target) = target else { continue };
            let Some(begin) = instructions[..=jump].iter().position(|(_, address, _)| *address == target)
            else {
                continue;
            };
            let is_pause = |text: &str| ["pause", "isb", "yield"].iter().any(|name| text.starts_with(name));
            if instructions[begin..=jump].iter().any(|(_, _, text)| is_pause(text)) {
                spins[begin..=jump].fill(true);
            }
        }
        let percent =
            instructions.iter().zip(spins).filter(|(_, spins)| *spins).map(|((percent, ..), _)| percent);
        found += samples * percent.sum::<f64>() / 100.0;
    }
    found
}

/// Percent, address and text of an instruction: `   99.86 :   12a2:   add    %rax,%rdx`
fn instruction(line: &str) -> Option<(f64, u64, &str)> {
    let mut columns = line.splitn(3, ':').map(str::trim);
    let percent = columns.next()?.parse().ok()?;
    let address = u64::from_str_radix(columns.next()?, 16).ok()?;
    Some((percent, address, columns.next()?))
}

#[test]
fn the_spin_share_is_what_perf_annotate_puts_down_to_loops_with_a_pause() {
    if Command::new("perf").arg("version").output().is_err() {
        println!("skipped: perf is not installed (Debian: linux-perf)");
        return;
    }
    // Which thread has a CPU for itself changes from second to second, and perf begins and ends at other moments than we do:
    // on one CPU the share is the same in all of them.
    let spinning = Spinning::start_on_one_cpu();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("perf.data");
    let mut perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-p", &spinning.pid().to_string(), "-o"])
        .arg(&data)
        .spawn()
        .unwrap();
    let profile = sample(spinning.pid(), &|profile| profile.observations.len() >= 2000);
    rustix::process::kill_process(rustix::process::Pid::from_child(&perf), rustix::process::Signal::INT)
        .unwrap();
    perf.wait().unwrap();
    let Some(profile) = profile else { return };

    let perf = |arguments: &[&str]| {
        let output = Command::new("perf").args(arguments).arg("-i").arg(&data).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all = perf(&["script", "-F", "tid"]).lines().count() as f64;
    let theirs = annotated_spinning(&perf(&["annotate", "--stdio"])) / all;
    let ours = spin_share(&profile).unwrap();
    println!("perf {theirs:.4} of {all} samples, spindoctor {:.4} of {}", ours.user, ours.samples);
    // Two percentage points, and what chance does to samples of this number.
    let chance = 3.0 * (ours.user * (1.0 - ours.user) * (1.0 / all + 1.0 / ours.samples as f64)).sqrt();
    assert!(theirs > 0.3 && (ours.user - theirs).abs() <= 0.02 + chance, "{theirs} {ours:?}");
}
