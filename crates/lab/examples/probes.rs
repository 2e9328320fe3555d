//! Records the probe's readings of a real server under load, with stalls at known instants.
//!
//! `cargo run -p spindoctor-lab --example probes -- FILE [which=mysql|mariadb] [load=NAME:CLIENTS:RATE|max]... [seconds=S]
//! [stalls=NAME,...] [lasts_ms=MS,...] [every_s=S] [disk=yes]`
//!
//! A load is one of sysbench's (`oltp_point_select`); without stalls the load is steady. FILE is text: a line that says
//! what it is, then `stall KIND ASKED HELD ENDED` in milliseconds and a line for each probe, as
//! `crates/stalls/tests/stalls/real.rs` reads them. Files that become test data are compressed with zstd.

use std::fmt::Write as _;
use std::time::Duration;

use spindoctor_collect::follow::{FollowOptions, Followed, Follower};
use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_collect::priority::Ahead;
use spindoctor_lab::injection::{self, Injected, Injection};
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Data, Home, Limits, Server, ServerSpec, Which};
use spindoctor_model::{Probe, Segment};
use spindoctor_stacks::{RingOptions, RingThread};

const TABLES: Tables = Tables { count: 1, rows: 1_000 };
/// Detectors learn what is usual first.
const LEARNS: Duration = Duration::from_secs(30);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Asked {
    file: String,
    which: Which,
    loads: Vec<LoadSpec>,
    seconds: f64,
    stalls: Vec<&'static Injection>,
    lasts: Vec<Duration>,
    every_s: f64,
    disk: bool,
    line: String,
}

fn asked() -> Outcome<Asked> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut asked = Asked {
        file: words.first().ok_or("which file?")?.clone(),
        which: Which::Mysql,
        loads: Vec::new(),
        seconds: 300.0,
        stalls: Vec::new(),
        lasts: vec![Duration::from_millis(200)],
        every_s: 6.0,
        disk: false,
        line: words[1..].join(" "),
    };
    for word in &words[1..] {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word}: no value"))?;
        match name {
            "which" if value == "mariadb" => asked.which = Which::Mariadb,
            "which" => asked.which = Which::Mysql,
            "load" => asked.loads.push(load(value)?),
            "seconds" => asked.seconds = value.parse()?,
            "every_s" => asked.every_s = value.parse()?,
            "disk" => asked.disk = value == "yes",
            "lasts_ms" => {
                let lasts: Result<Vec<u64>, _> = value.split(',').map(str::parse).collect();
                asked.lasts = lasts?.into_iter().map(Duration::from_millis).collect();
            }
            "stalls" => {
                for name in value.split(',') {
                    asked.stalls.push(injection::find(name).ok_or_else(|| format!("no stall {name}"))?);
                }
            }
            _ => return Err(format!("what is {name}?").into()),
        }
    }
    Ok(asked)
}

fn load(value: &str) -> Outcome<LoadSpec> {
    let [name, clients, rate] = value.split(':').collect::<Vec<_>>()[..] else {
        return Err(format!("{value} is not NAME:CLIENTS:RATE").into());
    };
    let workload = Workload::of_name(name).ok_or_else(|| format!("no workload {name}"))?;
    let rate = if rate == "max" { None } else { Some(rate.parse()?) };
    Ok(LoadSpec { workload, threads: clients.parse()?, rate, tables: TABLES })
}

fn main() -> Outcome<()> {
    let asked = asked()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(record(&asked))
}

async fn record(asked: &Asked) -> Outcome<()> {
    let spec = ServerSpec {
        which: asked.which.clone(),
        tables: Some(TABLES),
        data: if asked.disk { Data::Disk } else { Data::Tmpfs },
        limits: Limits { writes: asked.disk, ..Limits::default() },
        options: vec!["--max-connections=2000".to_owned()],
        ..ServerSpec::default()
    };
    let server = Server::start(&Home::open()?, &spec, &|_| {}).await?;
    let mut loads = Vec::new();
    for spec in &asked.loads {
        loads.push(Load::start(server.socket(), *spec)?);
    }
    // From here on: the server and its clients are a part of the crowd.
    let _ahead = Ahead::of_others();
    // Snapshots of stacks are taken as the recorder takes them: they are noise too.
    let _ring = RingThread::start(server.pid(), RingOptions::default())?;
    let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
    let mut follower = Follower::start(target, FollowOptions::default());
    let (mut segment, mut probes, mut injected) = (Segment::default(), Vec::new(), Vec::new());
    tokio::select! {
        () = follow(&mut follower, &mut segment, &mut probes) => {}
        made = inject(asked, &server, &mut injected) => made?,
    }
    follower.finish().await;
    for mut load in loads {
        load.check()?;
        load.stop().await;
    }
    let version = server.version();
    server.stop()?;
    std::fs::write(&asked.file, text(asked, &version.to_string(), &segment, &probes, &injected)?)?;
    Ok(())
}

async fn follow(follower: &mut Follower, segment: &mut Segment, probes: &mut Vec<Probe>) {
    while let Some(followed) = follower.next().await {
        match followed {
            Followed::Segment(begun) => {
                *segment = begun;
                probes.clear();
            }
            Followed::Probe(probe) => probes.push(probe),
            _ => {}
        }
    }
}

async fn inject(asked: &Asked, server: &Server, injected: &mut Vec<(&str, Injected)>) -> Outcome<()> {
    let until = tokio::time::Instant::now() + Duration::from_secs_f64(asked.seconds);
    tokio::time::sleep(LEARNS).await;
    while tokio::time::Instant::now() < until {
        tokio::time::sleep(Duration::from_secs_f64(asked.every_s * (0.5 + fastrand::f64()))).await;
        if let Some(stall) = fastrand::choice(&asked.stalls) {
            let lasts = fastrand::choice(&asked.lasts).copied().unwrap_or_default();
            injected.push((stall.name, stall.make(server, lasts).await?));
        }
    }
    // The last stall is over and seen.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

fn text(
    asked: &Asked,
    version: &str,
    segment: &Segment,
    probes: &[Probe],
    injected: &[(&str, Injected)],
) -> Outcome<String> {
    let mut text = String::new();
    writeln!(text, "{version}, {}", asked.line)?;
    for (kind, Injected { asked, held, ended }) in injected {
        let ms = |at: &jiff::Timestamp| at.duration_since(segment.began).as_millis();
        writeln!(text, "stall {kind} {} {} {}", ms(asked), ms(held), ms(ended))?;
    }
    // Tenths of milliseconds, and of what is counted by how much it changed.
    let (mut at_before, mut before) = (0, [0; 3]);
    for probe in probes {
        let at = (probe.at_s * 1e4).round() as i64;
        write!(text, "{} {:.0}", at - at_before, probe.took_ms * 10.0)?;
        at_before = at;
        if let (true, Some(running)) = (probe.answered, probe.threads_running) {
            let counts = [probe.questions, probe.commits, probe.checkpoint_age_bytes];
            let counts = counts.map(|count| count.unwrap_or_default() as i64);
            let [questions, commits, age] = [0, 1, 2].map(|of| counts[of] - before[of]);
            before = counts;
            write!(text, " {running} {questions} {commits} {age}")?;
        }
        writeln!(text)?;
    }
    Ok(text)
}
