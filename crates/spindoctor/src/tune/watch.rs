//! `spindoctor tune --watch`: keeps the spin settings right while the host changes under the server.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde_json::json;
use spindoctor_collect::ground::{self, Depth};
use spindoctor_collect::host;
use spindoctor_collect::mysql::{Limits, Session, Target};
use spindoctor_collect::priority::Ahead;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{HostSample, Reading, Sample, Window};
use spindoctor_tune::apply::{Settings, TakeOptions};
use spindoctor_tune::governor::{COMMIT_MARK, Due, Governor, LOOKS_AT};
use spindoctor_tune::interrupt::Interrupts;
use spindoctor_tune::variables::find;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::apply;
use super::args::Tune;
use super::by_waits::{Decision, Follower, Looks, MeasuredWaits, SETS};
use crate::common::exit::ExitStatus;
use crate::common::latch_waits::{LatchReport, probes};
use crate::common::runtime::wait_for;
use crate::common::session::note;
use crate::common::{output, session};
use spindoctor_page::safe::safe;

/// How often the host is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// So many looks lie between two at the CPU's model and its PAUSE, which cost the server's CPUs some milliseconds.
const WHOLE_EVERY: u32 = 5;

/// A query of the governor's may take so long: a signal waits for it.
const DEADLINE: Duration = Duration::from_secs(2);

/// How long it waits before it takes up a server again that was lost.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Governs until a signal comes, over restarts of the server.
pub fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let only = asked.only.iter().map(|only| only_name(only)).collect::<anyhow::Result<Vec<_>>>()?;
    let target = session::target(&asked.connection)?;
    let _ahead = Ahead::of_others();
    wait_for(async {
        let mut interrupts = Interrupts::listen().context("could not listen for signals")?;
        let mut text = String::new();
        let mut was_there = false;
        loop {
            let ended = match Governed::take(asked, &target, &only).await {
                Ok(governed) => {
                    was_there = true;
                    governed.run(&mut interrupts, asked.json).await?
                }
                Err(why) if !was_there => return Err(why),
                Err(why) => Ended::Lost(format!("{why:#}")),
            };
            match ended {
                Ended::Asked => return Ok(ExitStatus::Done),
                Ended::Lost(why) if why == text => {}
                Ended::Lost(why) => {
                    note(&format!("{why}; it is tried again every {} s", AGAIN_AFTER.as_secs()));
                    text = why;
                }
            }
            tokio::select! {
                () = sleep(AGAIN_AFTER) => {}
                _signal = interrupts.next() => return Ok(ExitStatus::Done),
            }
        }
    })
}

/// A variable's name; the governor finds the value itself.
fn only_name(only: &str) -> anyhow::Result<&'static str> {
    match only.split_once('=') {
        Some((name, _)) => bail!("--watch finds the value of {name} itself; give the name alone"),
        None => Ok(find(only)?.name),
    }
}

/// Why governing ended.
enum Ended {
    /// A signal came.
    Asked,
    /// The server was restarted, or cannot be reached.
    Lost(String),
}

/// A server that is governed. Its settings are lent, and come back however this ends.
struct Governed {
    process: host::Target,
    target: Target,
    session: Session,
    governor: Governor,
    settings: Settings,
    waits: Option<Waits>,
}

/// Waits for latches, which the latch spin follows.
struct Waits {
    pid: u32,
    looks: Looks,
    follower: Follower,
    begun: Instant,
    /// What it may set.
    sets: Vec<&'static str>,
}

impl Governed {
    async fn take(asked: &Tune, target: &Target, only: &[&str]) -> anyhow::Result<Self> {
        let (pid, other) = session::process(&asked.connection, target)?;
        if let Some(other) = other {
            bail!("{other}; give the --pid of the server that is connected to, or none");
        }
        let mut session = connect(target).await?;
        let version = session.version().context("the server did not report its version")?;
        let variables = ground::variables(&mut session, &LOOKS_AT).await?;
        let mut governor = Governor::new(version, &variables);
        if asked.by_waits {
            governor = governor.only(&[COMMIT_MARK]);
        }
        if !only.is_empty() {
            governor = governor.only(only);
        }
        let mut governed = governor.variables();
        let may_set =
            |name: &&'static str| variables.text(name).is_some() && (only.is_empty() || only.contains(name));
        let sets: Vec<&'static str> =
            SETS.into_iter().filter(|name| asked.by_waits && may_set(name)).collect();
        for name in &sets {
            governed.push(find(name)?);
        }
        if governed.is_empty() {
            bail!(
                "there is nothing to govern: {version} has none of the variables asked for that --watch sets"
            );
        }
        // Before anything is lent: who may not set probes hears of it now.
        let probes = if sets.is_empty() { None } else { Some(probes(pid)?) };
        let settings = Settings::take(target, &governed, &TakeOptions::of_process()?).await?;
        settings.notes().iter().for_each(|what| note(what));
        let names: Vec<&str> = governed.iter().map(|variable| variable.name).collect();
        note(&format!(
            "watching process {pid} for {}; Ctrl-C ends it and puts the old values back",
            names.join(", ")
        ));
        note(&apply::switch_text(&settings));
        let waits = probes.map(|probes| Waits {
            pid,
            looks: Looks::start(probes),
            follower: Follower::default(),
            begun: Instant::now(),
            sets,
        });
        let (process, target) = (host::Target::live(pid), target.clone());
        Ok(Self { process, target, session, governor, settings, waits })
    }

    /// Looks every second, until it ends; then the old values are put back.
    async fn run(mut self, interrupts: &mut Interrupts, is_json: bool) -> anyhow::Result<Ended> {
        let mut clock = interval(EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = 0;
        let ended = loop {
            tokio::select! {
                biased;
                signal = interrupts.next() => {
                    note(&format!("{signal}: the old values are put back"));
                    break Ok(Ended::Asked);
                }
                why = self.settings.wait_until_lost() => break Ok(Ended::Lost(why)),
                seen = next(&mut self.waits) => {
                match seen {
                    Ok(seen) => if let Err(why) = self.follow(&seen, is_json).await {
                        break self.lost_or(why);
                    },
                    // The server may have ended: the lease shows it.
                    Err(why) => {
                        note(&format!("waits are not measured any more: {why}"));
                        self.waits = None;
                    }
                }
                continue;
            }
            _ = clock.tick() => {}
            }
            let depth = if looks % WHOLE_EVERY == 0 { Depth::Whole } else { Depth::Cpus };
            looks += 1;
            if let Err(why) = self.look(depth, is_json).await {
                break self.lost_or(why);
            }
        };
        match self.settings.restore().await {
            Ok(restored) => note(&restored.to_string()),
            Err(why) => note(&why.to_string()),
        }
        ended
    }

    /// A server that is lost ends this as lost, whatever failed over it.
    fn lost_or(&self, why: anyhow::Error) -> anyhow::Result<Ended> {
        match self.settings.lost() {
            Some(lost) => Ok(Ended::Lost(lost)),
            None => Err(why),
        }
    }

    /// The host and the server's variables; none where there is no answer: the lease shows whether the server is lost.
    async fn read(&mut self, depth: Depth) -> anyhow::Result<Option<(HostSample, NamedValues)>> {
        if self.session.is_broken() {
            match connect(&self.target).await {
                Ok(session) => self.session = session,
                Err(_) => return Ok(None),
            }
        }
        // Somebody else's change is left, and ends this.
        self.settings.check().await?;
        let host = ground::read(&self.process, depth);
        let now = ground::variables(&mut self.session, &LOOKS_AT).await;
        Ok(now.ok().map(|now| (host, now)))
    }

    /// Sets what waits for latches make worth.
    async fn follow(&mut self, seen: &MeasuredWaits, is_json: bool) -> anyhow::Result<()> {
        let Some((host, now)) = self.read(Depth::Whole).await? else { return Ok(()) };
        let Some(Waits { pid, follower, begun, sets, .. }) = &mut self.waits else { return Ok(()) };
        let mut sample = Sample { host, ..Sample::default() };
        sample.server.variables = Reading::Available { at_s: 0.0, took_ms: 0.0, value: now };
        let mut window = Window { samples: vec![sample], ..Window::default() };
        window.server.version = Some(self.settings.version());
        let report = LatchReport::new(&window, &seen.measured(*pid));
        let Decision::Set(changes, why) = follower.decide(&report, begun.elapsed()) else { return Ok(()) };
        if let Some(change) = changes.iter().find(|change| !sets.contains(&change.variable)) {
            note(&format!(
                "{} would have to be {} for it, and is not among what may be set: {why}",
                change.variable, change.to
            ));
            return Ok(());
        }
        let due = changes.iter().map(|change| Due {
            variable: change.variable,
            from: change.from.to_string(),
            to: change.to.to_string(),
            why: why.clone(),
        });
        let due: Vec<Due> = due.collect();
        let pairs = due.iter().map(|due| Ok((find(due.variable)?, due.to.clone())));
        self.settings.set(&pairs.collect::<anyhow::Result<Vec<_>>>()?).await?;
        due.iter().try_for_each(|due| output::print(&line(due, is_json)))
    }

    async fn look(&mut self, depth: Depth, is_json: bool) -> anyhow::Result<()> {
        let Some((host, now)) = self.read(depth).await? else { return Ok(()) };
        let metric_cpus = match host.srv_cpu_usage.value() {
            Some(_) => None,
            None => ground::counted_cpus(&mut self.session).await.unwrap_or_default(),
        };
        let step = self.governor.look(&host, metric_cpus, &now);
        step.notes.iter().for_each(|what| note(what));
        for due in &step.due {
            self.settings.set(&[(find(due.variable)?, due.to.clone())]).await?;
            output::print(&line(due, is_json))?;
        }
        Ok(())
    }
}

/// What the next look at waits saw; never, where none is taken.
async fn next(waits: &mut Option<Waits>) -> Result<MeasuredWaits, String> {
    match waits {
        Some(waits) => waits.looks.next().await,
        None => std::future::pending().await,
    }
}

async fn connect(target: &Target) -> anyhow::Result<Session> {
    Ok(Session::connect(target, &Limits { connect: DEADLINE, query: DEADLINE }).await?)
}

/// The log's line of a change.
fn line(Due { variable, from, to, why }: &Due, is_json: bool) -> String {
    let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    match is_json {
        true => {
            let at = at.to_string();
            let line = json!({ "schema": "spindoctor.watch/1", "at": at, "variable": variable, "from": from, "to": to, "why": why });
            format!("{line}\n")
        }
        false => format!("{at} {variable} {} -> {to}: {}\n", safe(from), safe(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_line_with_its_reason_and_strange_names_stay_in_it() {
        let due = Due {
            variable: "innodb_log_spin_cpu_pct_hwm",
            from: "50".into(),
            to: "8".into(),
            why: "the quota of /a\n\u{1b}[2J grants 1.00 CPUs".into(),
        };
        let text = line(&due, false);
        assert!(text.contains("Z innodb_log_spin_cpu_pct_hwm 50 -> 8: the quota of /a"), "{text}");
        assert!(text.lines().count() == 1 && !text.contains('\u{1b}'), "{text:?}");
        let json: serde_json::Value = serde_json::from_str(&line(&due, true)).unwrap();
        assert_eq!((json["schema"].as_str(), json["to"].as_str()), (Some("spindoctor.watch/1"), Some("8")));
    }

    #[test]
    fn only_takes_names_alone() {
        assert_eq!(only_name("innodb-spin-wait-delay").unwrap(), "innodb_spin_wait_delay");
        assert!(only_name("innodb_spin_wait_delay=3").unwrap_err().to_string().contains("the name alone"));
        assert!(only_name("datadir").is_err());
    }
}
