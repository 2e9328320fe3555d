//! Watchpoints in functions of the server, for as long as it is recorded: `--when-inside`, `--when-slower`.
//!
//! Each waits on a thread of its own, so that it is seen at that instant, and says when it began and when it was over.
//! Then it waits for the next. All of them together may take the share of one CPU that a trigger of `stacks` may take; the
//! probes of one that costs more are taken away, and set again after a rest. What this program itself does for a watchpoint
//! takes a hundredth of a CPU at most. The kernel takes the probes away when this process ends, by kill -9 too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::time::{ClockId, clock_gettime};
use spindoctor_model::{ServerIdentity, StallKind};
use spindoctor_page::number;
use spindoctor_stacks::Error;
use spindoctor_stacks::capture::trigger::{DEFAULT_BUDGET, Fired, Now, Trigger, TriggerCost, When};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::common::session::note;
use crate::common::watchpoint::{self, Watchpoint, milliseconds};

/// More are refused: each has probes, a thread and half a MiB of its own.
const MOST: usize = 8;
/// For how long it is waited for before a watchpoint looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(100);
/// A thread that is inside for too long is looked for no more often.
const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// While it lasts, how often it is looked at.
const LOOKS_AGAIN_EVERY: Duration = Duration::from_millis(20);
/// It is over where it was not so for this long: threads that pass one by one make gaps.
const OVER_AFTER: Duration = Duration::from_millis(100);
/// And is waited for again after this.
const AGAIN_AFTER: Duration = Duration::from_millis(300);
/// An event begins no longer before it is seen: the ring holds twelve seconds, and ten of them are from before the event.
const HELD_BEFORE: Duration = Duration::from_secs(2);
/// Asleep, it sees so often what the probes cost and whether it is still wanted: as often as a trigger that is waited for.
const WAKES_EVERY: Duration = Duration::from_millis(50);
/// So much of its budget a trigger may cost at once, as while it is waited for.
const BURST: Duration = Duration::from_secs(2);
/// A watchpoint of this program sleeps for so many times as long as it works.
const SLEEPS_TIMES: u32 = 100;
/// But for no longer at once.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// What a watchpoint saw.
#[derive(Debug)]
pub struct Sighting {
    /// Which: a number.
    pub place: usize,
    /// Its kind of stall.
    pub kind: StallKind,
    /// What it waits for, in words.
    pub watched: String,
    /// When it was so.
    pub at: Instant,
    /// What happened.
    pub what: What,
}

/// What happened in a function that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What is waited for, in words: what fired it.
    Began(String, Most),
    /// It lasts, and there is more of it.
    Grew(Most),
    /// It is over.
    Over(Most),
}

/// How much of it there was at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// Threads in the function at once.
    Threads(u32),
    /// The longest time of a thread in the function.
    Took(Duration),
    /// Sessions that ran such a statement at once.
    Sessions(u64),
}

impl Most {
    fn new(when: When, inside: u32, took: Duration) -> Self {
        match when {
            When::Inside(_) => Self::Threads(inside),
            When::Slower(_) => Self::Took(took),
        }
    }

    /// The larger one of two of a kind.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Threads(one), Self::Threads(two)) => Self::Threads(one.max(two)),
            (Self::Took(one), Self::Took(two)) => Self::Took(one.max(two)),
            (Self::Sessions(one), Self::Sessions(two)) => Self::Sessions(one.max(two)),
            (one, _) => one,
        }
    }

    fn is_twice(self, before: Self) -> bool {
        match (self, before) {
            (Self::Threads(now), Self::Threads(before)) => now / 2 >= before.max(1),
            (Self::Took(now), Self::Took(before)) => now / 2 >= before && !now.is_zero(),
            _ => false,
        }
    }
}

/// What a thread of a watchpoint says.
#[derive(Debug)]
enum Said {
    Armed(usize),
    /// There is no such function, or the kernel refuses: it ended.
    Refused(usize, String),
    Note(String),
    Saw(Sighting),
}

/// The watchpoints of one server, as it is restarted.
pub struct Watch {
    wanted: Vec<Watchpoint>,
    of: Option<OfProcess>,
    /// Which have been armed once: one that cannot be ends the program while nothing is recorded.
    armed: Vec<bool>,
    costs: Arc<Costs>,
    reported: (u64, u64),
}

/// The watchpoints of one process. Where it goes, they do.
struct OfProcess {
    pid: u32,
    said: UnboundedReceiver<Said>,
    unwanted: Arc<AtomicBool>,
}

impl Drop for OfProcess {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// What all probes cost so far.
#[derive(Debug, Default)]
struct Costs {
    hits: AtomicU64,
    cpu_ns: AtomicU64,
    untracked: AtomicU64,
}

impl Watch {
    /// Of no process yet.
    ///
    /// # Errors
    /// There are too many, or the server is said to be elsewhere.
    pub fn new(inside: &[Watchpoint], slower: &[Watchpoint], is_remote: bool) -> anyhow::Result<Self> {
        let wanted: Vec<Watchpoint> = inside.iter().chain(slower).cloned().collect();
        if wanted.len() > MOST {
            bail!("{} functions are to be watched; {MOST} can be", wanted.len());
        }
        if is_remote && !wanted.is_empty() {
            bail!("functions are watched where the server runs: run spindoctor there, without --remote");
        }
        let armed = vec![false; wanted.len()];
        Ok(Self { wanted, of: None, armed, costs: Arc::default(), reported: (0, 0) })
    }

    /// From now on in this server's process, and in no other.
    ///
    /// # Errors
    /// The server answers, and its process is not on this host.
    pub fn follow(&mut self, server: &ServerIdentity) -> anyhow::Result<()> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        // Threads whose process has ended are gone, and their channel is closed.
        if self.of.as_ref().is_some_and(|of| Some(of.pid) == server.pid && !of.said.is_closed()) {
            return Ok(());
        }
        self.of = None;
        let Some(pid) = server.pid else {
            let has_answered = !server.version_text.is_empty();
            if has_answered && !self.armed.contains(&true) {
                let why = server.no_pid.as_ref().map_or("its process was not found", |why| &why.because);
                bail!("functions are watched where the server runs, and here it does not: {why}");
            }
            return Ok(());
        };
        let (say, said) = unbounded_channel();
        let of = OfProcess { pid, said, unwanted: Arc::default() };
        for (place, watchpoint) in self.wanted.iter().enumerate() {
            let watcher = Watcher {
                pid,
                place,
                watchpoint: watchpoint.clone(),
                budget: DEFAULT_BUDGET / self.wanted.len() as f64,
                say: say.clone(),
                unwanted: Arc::clone(&of.unwanted),
                costs: Arc::clone(&self.costs),
            };
            std::thread::Builder::new()
                .name("watchpoint".to_owned())
                .spawn(move || watcher.run())
                .context("could not start a thread")?;
        }
        self.of = Some(of);
        Ok(())
    }

    /// What a watchpoint saw next.
    ///
    /// # Errors
    /// One cannot be armed, and never was.
    pub async fn next(&mut self) -> anyhow::Result<Sighting> {
        loop {
            let said = match &mut self.of {
                Some(of) => of.said.recv().await,
                None => None,
            };
            match said {
                Some(Said::Saw(seen)) => return Ok(seen),
                Some(Said::Note(text)) => note(&text),
                Some(Said::Armed(place)) => {
                    let watchpoint = &self.wanted[place];
                    if !std::mem::replace(&mut self.armed[place], true) {
                        note(&format!("watching for {watchpoint}"));
                    }
                }
                Some(Said::Refused(place, why)) if !self.armed[place] => bail!("{why}"),
                Some(Said::Refused(place, why)) => {
                    note(&format!("no longer watching for {}: {why}", self.wanted[place]));
                }
                // All threads have ended, as their process has.
                None => std::future::pending().await,
            }
        }
    }

    /// How often probes were hit since this was asked last, and what that took, milliseconds; none where none stand.
    pub fn cost(&mut self) -> Option<(u64, f64)> {
        if self.wanted.is_empty() {
            return None;
        }
        let now = self.costs.now();
        let (hits, cpu_ns) = std::mem::replace(&mut self.reported, now);
        Some((now.0 - hits, (now.1 - cpu_ns) as f64 / 1e6))
    }

    /// What they cost the server in all, in words; none where there were none.
    pub fn total(&self) -> Option<String> {
        let (hits, cpu_ns) = self.costs.now();
        let untracked = self.costs.untracked.load(Ordering::Relaxed);
        (!self.wanted.is_empty()).then(|| watchpoint::cost(hits, Duration::from_nanos(cpu_ns), untracked))
    }
}

impl Costs {
    fn now(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.cpu_ns.load(Ordering::Relaxed))
    }

    /// Adds what a trigger cost since the last time.
    fn add(&self, before: TriggerCost, now: TriggerCost) {
        self.hits.fetch_add(now.hits - before.hits, Ordering::Relaxed);
        let cpu = now.cpu.saturating_sub(before.cpu);
        self.cpu_ns.fetch_add(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.untracked.fetch_add(now.untracked - before.untracked, Ordering::Relaxed);
    }
}

/// One watchpoint, on its thread.
struct Watcher {
    pid: u32,
    place: usize,
    watchpoint: Watchpoint,
    budget: f64,
    say: UnboundedSender<Said>,
    unwanted: Arc<AtomicBool>,
    costs: Arc<Costs>,
}

impl Watcher {
    fn run(self) {
        let mut rests = Rests::default();
        let mut is_first = true;
        while self.is_wanted() {
            let begun = Instant::now();
            let Watchpoint { function, when } = &self.watchpoint;
            let why = match Trigger::arm(self.pid, function, *when, self.budget) {
                Ok(trigger) => {
                    self.say(Said::Armed(self.place));
                    is_first = false;
                    self.attend(trigger.looking_every(LOOKS_EVERY))
                }
                Err(error) => Err(error),
            };
            let why = match why {
                Ok(()) | Err(Error::NoProcess(_)) => return,
                Err(why) if is_first => return self.say(Said::Refused(self.place, why.to_string())),
                Err(why) => why,
            };
            let rest = rests.after(begun.elapsed());
            let watched = &self.watchpoint;
            let again = number::duration(rest.as_secs_f64());
            self.say(Said::Note(format!("not watching for {watched} for {again}: {why}")));
            self.sleep(rest);
        }
    }

    /// Waits for it again and again, until it is not wanted any more.
    fn attend(&self, mut trigger: Trigger) -> Result<(), Error> {
        let mut own = OwnTime::start();
        let mut paid = TriggerCost::default();
        let mut lasts: Option<Lasting> = None;
        let mut ended = Ok(());
        while ended.is_ok() && self.is_wanted() {
            ended = self.look(&mut trigger, &mut lasts);
            let cost = trigger.cost();
            self.costs.add(std::mem::replace(&mut paid, cost), cost);
            let least = if lasts.is_some() { LOOKS_AGAIN_EVERY } else { Duration::ZERO };
            self.rest(&trigger, own.sleeps(least));
        }
        if let Some(lasting) = lasts {
            self.saw(Instant::now(), What::Over(lasting.most));
        }
        ended
    }

    /// Waits for it to begin, or looks whether it lasts.
    fn look(&self, trigger: &mut Trigger, lasts: &mut Option<Lasting>) -> Result<(), Error> {
        let Some(lasting) = lasts else {
            *lasts = trigger.wait(PATIENCE)?.map(|fired| self.began(fired));
            return Ok(());
        };
        let Some(over) = self.goes_on(lasting, trigger.now()?) else { return Ok(()) };
        self.saw(over, What::Over(lasting.most));
        *lasts = None;
        self.rest(trigger, AGAIN_AFTER);
        *lasts = trigger.again()?.map(|fired| self.began(fired));
        Ok(())
    }

    fn began(&self, fired: Fired) -> Lasting {
        let when = self.watchpoint.when;
        let now = Instant::now();
        let before = match when {
            When::Inside(_) => fired.ago,
            // It is slow since it entered; stacks from before that are held for no longer.
            When::Slower(_) => (fired.ago + fired.took).min(HELD_BEFORE),
        };
        let most = Most::new(when, fired.inside, fired.took);
        let because = format!("{}: {}", self.watchpoint, words(when, fired));
        self.saw(now.checked_sub(before).unwrap_or(now), What::Began(because, most));
        Lasting { most, said: most, over: None }
    }

    /// When it was over, where it is.
    fn goes_on(&self, lasting: &mut Lasting, now: Now) -> Option<Instant> {
        let at = Instant::now();
        if now.holds(self.watchpoint.when) {
            lasting.most = lasting.most.and(Most::new(self.watchpoint.when, now.inside, now.longest));
            lasting.over = None;
            // A message for each thread would be too much for who reads of it while it lasts.
            if lasting.most.is_twice(lasting.said) {
                lasting.said = lasting.most;
                self.saw(at, What::Grew(lasting.most));
            }
            return None;
        }
        let over = *lasting.over.get_or_insert(at);
        (at.duration_since(over) >= OVER_AFTER).then_some(over)
    }

    fn saw(&self, at: Instant, what: What) {
        let kind = match self.watchpoint.when {
            When::Inside(_) => StallKind::InsideFunction,
            When::Slower(_) => StallKind::SlowFunction,
        };
        let watched = self.watchpoint.to_string();
        self.say(Said::Saw(Sighting { place: self.place, kind, watched, at, what }));
    }

    /// Where nobody listens any more, this is not wanted either.
    fn say(&self, what: Said) {
        drop(self.say.send(what));
    }

    fn is_wanted(&self) -> bool {
        !self.unwanted.load(Ordering::Relaxed) && !self.say.is_closed()
    }

    fn sleep(&self, time: Duration) {
        self.sleep_while(time, || true);
    }

    /// Leaves a trigger alone for so long, or until its probes have cost a burst: the next look takes them away.
    fn rest(&self, trigger: &Trigger, time: Duration) {
        let (before, burst) = (trigger.cost().cpu, BURST.mul_f64(self.budget));
        self.sleep_while(time, || trigger.cost().cpu.saturating_sub(before) <= burst);
    }

    fn sleep_while(&self, time: Duration, is_so: impl Fn() -> bool) {
        let until = Instant::now() + time;
        while self.is_wanted() && is_so() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(WAKES_EVERY));
        }
    }
}

fn words(when: When, fired: Fired) -> String {
    match when {
        When::Inside(_) => format!("{} at once", fired.inside),
        When::Slower(_) => format!("thread {} for {}", fired.tid, milliseconds(fired.took)),
    }
}

/// What a watchpoint sees.
struct Lasting {
    most: Most,
    /// What was said of it.
    said: Most,
    /// Since then it is so no more.
    over: Option<Instant>,
}

/// The CPU time of this thread.
struct OwnTime(Duration);

impl OwnTime {
    fn start() -> Self {
        Self(Self::now())
    }

    fn now() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            u64::try_from(now.tv_sec).unwrap_or_default(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        )
    }

    /// For how long to sleep after what was done since this was asked last.
    fn sleeps(&mut self, least: Duration) -> Duration {
        let now = Self::now();
        let did = now.saturating_sub(std::mem::replace(&mut self.0, now));
        rest_of(did, least)
    }
}

/// The sleep after so much work: none after little, which a wait for an event follows.
fn rest_of(did: Duration, least: Duration) -> Duration {
    const LITTLE: Duration = Duration::from_micros(500);
    let rest = if did > LITTLE { did * SLEEPS_TIMES } else { Duration::ZERO };
    rest.clamp(least, LONGEST_SLEEP)
}

/// How long a function is left alone whose probes cost too much: twice as long each time, unless they stood for long.
#[derive(Debug)]
struct Rests {
    next: Duration,
}

/// One arming costs a burst: 20 ms of the server's, and what comes within 50 ms. In a minute that is a small part of a
/// hundredth.
const FIRST_REST: Duration = Duration::from_mins(1);
const LONGEST_REST: Duration = Duration::from_hours(1);
/// Probes that stood for so long were worth it.
const STOOD_FOR: Duration = Duration::from_mins(10);

impl Default for Rests {
    fn default() -> Self {
        Self { next: FIRST_REST }
    }
}

impl Rests {
    /// For how long, after probes that stood for so long.
    fn after(&mut self, stood: Duration) -> Duration {
        if stood >= STOOD_FOR {
            self.next = FIRST_REST;
        }
        let rest = self.next;
        self.next = (rest * 2).min(LONGEST_REST);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::watchpoint::{inside, slower};

    #[test]
    fn rests_grow_up_to_an_hour_and_begin_again_after_probes_that_stood_for_long() {
        let mut rests = Rests::default();
        let minutes: Vec<u64> =
            (0..8).map(|_| rests.after(Duration::from_millis(50)).as_secs() / 60).collect();
        assert_eq!(minutes, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(rests.after(STOOD_FOR), FIRST_REST);
        // A burst, and all that two CPUs can hit within a tick, once a minute.
        let burst = BURST.mul_f64(DEFAULT_BUDGET) + 2 * Duration::from_millis(50);
        assert!(burst.as_secs_f64() / FIRST_REST.as_secs_f64() < 0.003);
    }

    #[test]
    fn who_works_much_sleeps_long() {
        let ms = Duration::from_millis;
        assert_eq!(rest_of(Duration::from_micros(100), Duration::ZERO), Duration::ZERO);
        assert_eq!(rest_of(Duration::from_micros(100), ms(20)), ms(20));
        assert_eq!(rest_of(ms(2), ms(20)), ms(200));
        assert_eq!(rest_of(ms(500), ms(20)), LONGEST_SLEEP);
    }

    #[test]
    fn a_server_elsewhere_and_too_many_functions_are_refused() {
        let one = [inside("f:1").unwrap()];
        let refused = |result: anyhow::Result<Watch>| result.err().unwrap().to_string();
        assert!(refused(Watch::new(&one, &[], true)).contains("without --remote"));
        assert!(Watch::new(&[], &[], true).is_ok());
        let many = vec![slower("f:1ms").unwrap(); 8];
        assert_eq!(refused(Watch::new(&one, &many, false)), "9 functions are to be watched; 8 can be");

        let mut watch = Watch::new(&one, &[], false).unwrap();
        let not_yet = ServerIdentity::default();
        assert!(watch.follow(&not_yet).is_ok(), "nobody knows where it is");
        let elsewhere = ServerIdentity { version_text: "9.7.4".to_owned(), ..not_yet };
        let said = watch.follow(&elsewhere).unwrap_err().to_string();
        assert!(said.contains("its process was not found"), "{said}");
    }

    #[test]
    fn what_fired_is_said_with_its_numbers() {
        let ms = Duration::from_millis;
        let fired = Fired { tid: 4711, inside: 21, took: ms(134), ago: ms(0) };
        assert_eq!(words(When::Inside(20), fired), "21 at once");
        assert_eq!(words(When::Slower(ms(100)), fired), "thread 4711 for 134 ms");
    }
}
