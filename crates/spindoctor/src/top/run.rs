//! `spindoctor top`: a live server or a recording, on a terminal or as one screen of text.

use std::io::IsTerminal as _;

use anyhow::{Context as _, anyhow, bail};

use super::args::Top as Asked;
use super::feed::Feed;
use super::live::Live;
use super::replay::Replay;
use super::state::State;
use super::{jump, once, terminal};
use crate::common::exit::ExitStatus;

/// Shows what was asked for.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if asked.once {
        once::run(asked)?;
        return Ok(ExitStatus::Done);
    }
    expect_terminal()?;
    match &asked.replay {
        Some(_) => {
            let (mut feed, state) = replay(asked)?;
            terminal::show(&mut feed, state)?;
        }
        None => {
            let mut feed = Live::start(&asked.connection)?;
            let shown = terminal::show(&mut feed, State::new(asked.screen));
            feed.finish();
            shown?;
        }
    }
    Ok(ExitStatus::Done)
}

/// The recording that was asked for, at the instant that was asked for.
pub fn replay(asked: &Asked) -> anyhow::Result<(Replay, State)> {
    let file = asked.replay.as_deref().context("no recording was named; give one with --replay")?;
    let mut feed = Replay::open(file)?;
    let mut state = State::new(asked.screen);
    let extent = feed.extent()?;
    if let Some(text) = &asked.at {
        let extent = extent.ok_or_else(|| anyhow!("{} holds no sample", file.display()))?;
        let at = jump::parse(text, extent.to, Some(extent)).map_err(|why| anyhow!("--at: {why}"))?;
        if !extent.holds(at) {
            bail!(
                "--at: {at} is not in {}, which goes from {} to {}",
                file.display(),
                extent.from,
                extent.to
            );
        }
        state.go_to(at, Some(extent));
    }
    if let Some(id) = asked.event {
        let events = feed.events()?;
        let event = events.iter().find(|event| event.id == id).ok_or_else(|| {
            let last = events.last().map_or(0, |event| event.id);
            anyhow!("{} has no event {id}; its last one is {last}", file.display())
        })?;
        state.go_to(event.began, extent);
    }
    Ok((feed, state))
}

/// Keys come from standard input, and the screen goes to standard output.
fn expect_terminal() -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() {
        bail!("standard output is not a terminal; `spindoctor top --once` prints one screen as text");
    }
    if !std::io::stdin().is_terminal() {
        bail!(
            "standard input is not a terminal, so no key could be pressed; `spindoctor top --once` needs none"
        );
    }
    Ok(())
}
