//! A tuner that only flips values, for the tests that kill it: `DRIVER flip ADDRESS STATE VARIABLE=VALUE,VALUE...`.
//!
//! ADDRESS is a socket or `HOST:PORT` (user and password `spindoctor`). It says `armed`, with its guardian's process, and
//! `flipping`, and flips until a signal asks it to end; then it says what became of the settings. With `keep` for `flip` it
//! sets the first values, keeps them and ends; with `hold` it sets the first values, waits, and says `guardian` when it has
//! another one; with `check` it looks, while it waits, whether they are still as it set them. With `obey` it does what it reads
//! from standard input, a line for each: `set VALUE`, `check`, `keep`, `restore`. `DRIVER recover ADDRESS
//! STATE` is `tune --recover`. With `undo`, see [`undo`].

#![expect(clippy::print_stdout, reason = "the tests read it")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use spindoctor_collect::host;
use spindoctor_collect::mysql::{Endpoint, SslMode, Target};
use spindoctor_tune::apply::{ApplyError, Settings, TakeOptions, UndoStep, recover};
use spindoctor_tune::guardian;
use spindoctor_tune::interrupt::Interrupts;
use spindoctor_tune::variables::{Variable, find};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if arguments.first().is_some_and(|first| first == guardian::ARGUMENT) {
        return match runtime.block_on(guardian::run(|_| ())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    match runtime.block_on(tune(&arguments)) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tune(arguments: &[String]) -> Result<String, ApplyError> {
    let [what, address, state, sets @ ..] = arguments else { panic!("what, address, state, variables") };
    let target = match address.rsplit_once(':') {
        Some((host, port)) => {
            let endpoint = Endpoint::Tcp { host: host.into(), port: port.parse().expect("a port") };
            let mut target = Target::new(endpoint, "spindoctor").with_password("spindoctor".into());
            target.tls.mode = SslMode::Disabled;
            // The server is the test's own.
            target.trust.get_server_public_key = true;
            target
        }
        None => Target::new(Endpoint::Socket(address.into()), "root"),
    };
    let sets: Vec<(&'static Variable, Vec<String>)> = sets
        .iter()
        .map(|set| {
            let (name, values) = set.split_once('=').expect("VARIABLE=VALUE");
            (find(name).expect("on the list"), values.split(',').map(str::to_owned).collect())
        })
        .collect();
    if what == "recover" {
        let recovered = recover(&target, Path::new(state)).await?;
        return Ok(format!("{recovered:?}"));
    }
    let mut interrupts = Interrupts::listen().expect("signals can be caught");
    let options = TakeOptions { state: PathBuf::from(state), program: "/proc/self/exe".into() };
    let variables: Vec<&'static Variable> = sets.iter().map(|(variable, _)| *variable).collect();
    let mut settings = Settings::take(&target, &variables, &options).await?;
    let switch = settings.switch();
    println!("armed event={} guardian={}", switch.event.is_ok(), switch.guardian.unwrap_or_default());
    if what == "obey" {
        return obey(settings, &sets).await;
    }
    if what == "undo" {
        return undo(settings, &sets, interrupts).await;
    }
    for turn in 0_usize.. {
        let values = sets.iter().map(|(variable, values)| (*variable, values[turn % values.len()].clone()));
        let values: Vec<(&'static Variable, String)> = values.collect();
        tokio::select! {
            signal = interrupts.next() => return Ok(format!("{signal}: {}", settings.restore().await?)),
            lost = settings.wait_until_lost() => return Ok(format!("lost: {lost}: {}", settings.restore().await?)),
            () = tokio::time::sleep(std::time::Duration::from_millis(1)) => {}
        }
        if let Err(error) = settings.set(&values).await {
            return Ok(format!("{error}: {}", settings.restore().await?));
        }
        if turn == 0 {
            println!("flipping");
            match what.as_str() {
                "check" => loop {
                    if let Err(error) = settings.check().await {
                        return Ok(format!("{error}: {}", settings.restore().await?));
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                },
                "keep" => return settings.keep().await.map(|()| "kept".to_owned()),
                "hold" => {
                    let mut guardian = settings.switch().guardian;
                    let over = loop {
                        tokio::select! {
                            signal = interrupts.next() => break signal.to_string(),
                            lost = settings.wait_until_lost() => break format!("lost: {lost}"),
                            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
                        }
                        let now = settings.switch().guardian;
                        if let (true, Ok(pid)) = (now != guardian, &now) {
                            println!("guardian={pid}");
                        }
                        guardian = now;
                    };
                    return Ok(format!("{over}: {}", settings.restore().await?));
                }
                _ => {}
            }
        }
    }
    unreachable!("it flips until a signal ends it")
}

/// Follows the orders, until one says to end or something fails.
async fn obey(
    mut settings: Settings,
    sets: &[(&'static Variable, Vec<String>)],
) -> Result<String, ApplyError> {
    let (sender, mut orders) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _gone = sender.send(line);
        }
    });
    let mut guardian = settings.switch().guardian;
    loop {
        let order = tokio::select! {
            lost = settings.wait_until_lost() => {
                return Ok(format!("lost: {lost}: {}", settings.restore().await?));
            }
            order = orders.recv() => order.unwrap_or_else(|| "restore".to_owned()),
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {
                let now = settings.switch().guardian;
                if let (true, Ok(pid)) = (now != guardian, &now) {
                    println!("guardian={pid}");
                }
                guardian = now;
                continue;
            }
        };
        let done = match order.split_once(' ') {
            Some(("set", value)) => {
                let values: Vec<(&'static Variable, String)> =
                    sets.iter().map(|(variable, _)| (*variable, value.to_owned())).collect();
                settings.set(&values).await
            }
            _ if order == "check" => settings.check().await,
            _ if order == "keep" => return settings.keep().await.map(|()| "kept".to_owned()),
            _ => return Ok(format!("restored: {}", settings.restore().await?)),
        };
        if let Err(error) = done {
            return Ok(format!("{error}: {}", settings.restore().await?));
        }
    }
}

/// A number that the test gives in the environment; 0 where it gives none.
fn asked(name: &str) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Steps with undo tablespaces so far.
static STEPS: AtomicU32 = AtomicU32::new(0);

/// SIGKILL at the step KILL_AT, SIGSTOP at the step STOP_AT, of this very process.
fn step(step: UndoStep) {
    let number = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    println!("step {number}: {step:?}");
    for (name, signal) in [("STOP_AT", Signal::STOP), ("KILL_AT", Signal::KILL)] {
        if asked(name) == number {
            kill_process(getpid(), signal).expect("a signal to itself");
        }
    }
}

/// Makes UNDO undo tablespaces on the server with the process SERVER, sets the first values, and gives everything back; with
/// KEEP=1 it keeps everything, with HOLD=1 it says `holding` and waits for a signal, and for the loss of its lease.
async fn undo(
    mut settings: Settings,
    sets: &[(&'static Variable, Vec<String>)],
    mut interrupts: Interrupts,
) -> Result<String, ApplyError> {
    settings.watch_undo(step);
    let host = host::Target::live(asked("SERVER"));
    match settings.make_undo(asked("UNDO"), None, Some(&host), &|| false).await {
        Ok(made) => println!("made {}", made.names.join(" ")),
        Err(error) => return Ok(format!("{error}: {}", settings.restore().await?)),
    }
    let values: Vec<(&'static Variable, String)> =
        sets.iter().map(|(variable, values)| (*variable, values[0].clone())).collect();
    if let Err(error) = settings.set(&values).await {
        return Ok(format!("{error}: {}", settings.restore().await?));
    }
    if asked("KEEP") == 1 {
        return settings.keep().await.map(|()| "kept".to_owned());
    }
    if asked("HOLD") == 1 {
        println!("holding");
        tokio::select! {
            _ = interrupts.next() => {}
            _ = settings.wait_until_lost() => {}
        }
    }
    Ok(format!("restored: {}", settings.restore().await?))
}
