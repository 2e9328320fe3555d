//! Seconds by class, as they are counted, and the shares that come of them.

use std::collections::BTreeMap;

use spindoctor_model::{KnownBy, SessionTime, TimeClass, TimeShare};

/// Blocks of instants that the error is computed from: instants close to each other say the same.
const BLOCKS: usize = 10;

/// Half of a 95 % interval in standard errors, with the nine degrees of freedom that ten blocks have (Student's t).
const T_95: f64 = 2.26;

/// What is shown of a class's waits.
const SEEN: usize = 3;

/// Shares below this are rounding.
const LEAST: f64 = 0.0005;

/// Sessions by class, summed up over instants.
#[derive(Debug, Default)]
pub(super) struct Account {
    parts: BTreeMap<TimeClass, Part>,
    /// Sessions by class at each instant, for the error.
    instants: Vec<BTreeMap<TimeClass, f64>>,
    /// Sessions that slept on purpose, summed up over instants.
    pub(super) sleeping: f64,
    /// Threads of clients that were there, at work or not, summed up over instants.
    pub(super) present: f64,
    /// How many times a session was seen at work.
    pub(super) observations: u64,
}

#[derive(Debug, Default)]
struct Part {
    sessions: f64,
    known_by: BTreeMap<KnownBy, f64>,
    seen: BTreeMap<String, f64>,
}

impl Account {
    /// Begins the next instant.
    pub(super) fn next_instant(&mut self) {
        self.instants.push(BTreeMap::new());
    }

    /// A session was seen in a class at the latest instant, and in what.
    pub(super) fn see(&mut self, class: TimeClass, known_by: KnownBy, seen: &str) {
        self.observations += 1;
        if let Some(instant) = self.instants.last_mut() {
            *instant.entry(class).or_default() += 1.0;
        }
        let part = self.parts.entry(class).or_default();
        part.sessions += 1.0;
        *part.known_by.entry(known_by).or_default() += 1.0;
        if !seen.is_empty() {
            *part.seen.entry(seen.to_owned()).or_default() += 1.0;
        }
    }

    /// Sessions at work on average.
    pub(super) fn at_work(&self) -> f64 {
        self.parts.values().fold(0.0, |sum, part| sum + part.sessions) / self.instants()
    }

    /// Takes so much out of these classes that no more sessions are at work than there were threads of clients. Snapshots and
    /// clocks each count a thread once, and between them one that just woke up twice.
    pub(super) fn bound(&mut self, classes: &[TimeClass]) {
        let excess = self.at_work() - self.present / self.instants();
        let there = self.sessions(classes);
        if self.present > 0.0 && excess > 0.0 && there > 0.0 {
            self.take(classes, (excess / there).min(1.0));
        }
    }

    /// Sessions of these classes on average.
    pub(super) fn sessions(&self, classes: &[TimeClass]) -> f64 {
        let parts = classes.iter().filter_map(|class| self.parts.get(class));
        parts.fold(0.0, |sum, part| sum + part.sessions) / self.instants()
    }

    /// The classes in which a session was seen.
    pub(super) fn classes(&self) -> Vec<TimeClass> {
        self.parts.keys().copied().collect()
    }

    /// Takes that part of the sessions, 0 to 1, out of these classes.
    pub(super) fn take(&mut self, classes: &[TimeClass], part: f64) {
        for class in classes {
            if let Some(of_class) = self.parts.get_mut(class) {
                let keep = (1.0 - part).clamp(0.0, 1.0);
                of_class.sessions *= keep;
                of_class.known_by.values_mut().for_each(|sessions| *sessions *= keep);
                of_class.seen.values_mut().for_each(|sessions| *sessions *= keep);
            }
        }
    }

    /// Adds so many sessions on average to a class.
    pub(super) fn add(&mut self, class: TimeClass, sessions: f64, known_by: KnownBy) {
        let sessions = sessions * self.instants();
        let part = self.parts.entry(class).or_default();
        part.sessions += sessions;
        *part.known_by.entry(known_by).or_default() += sessions;
    }

    /// Moves what is left of a class into another, and what it was seen in.
    pub(super) fn rename(&mut self, class: TimeClass, other: TimeClass, known_by: KnownBy) {
        let Some(moved) = self.parts.remove(&class) else { return };
        let part = self.parts.entry(other).or_default();
        part.sessions += moved.sessions;
        *part.known_by.entry(known_by).or_default() += moved.sessions;
        for (text, sessions) in moved.seen {
            *part.seen.entry(text).or_default() += sessions;
        }
    }

    /// Makes so many sessions on average, out of those that wait for something without a name, sessions of a class that a counter
    /// says: a conclusion, for the counter names no session.
    pub(super) fn name_nameless(&mut self, class: TimeClass, sessions: f64) {
        let wanted = sessions * self.instants();
        let Some(other) = self.parts.get_mut(&TimeClass::Other) else { return };
        let Some(nameless) = other.known_by.get_mut(&KnownBy::Inferred) else { return };
        let moved = wanted.clamp(0.0, *nameless);
        *nameless -= moved;
        let part = if other.sessions > 0.0 { moved / other.sessions } else { 0.0 };
        other.sessions -= moved;
        let mut seen = Vec::new();
        for (text, sessions) in &mut other.seen {
            seen.push((text.clone(), *sessions * part));
            *sessions *= 1.0 - part;
        }
        let named = self.parts.entry(class).or_default();
        named.sessions += moved;
        *named.known_by.entry(KnownBy::Inferred).or_default() += moved;
        for (text, sessions) in seen {
            *named.seen.entry(text).or_default() += sessions;
        }
    }

    fn instants(&self) -> f64 {
        self.instants.len().max(1) as f64
    }

    /// The shares. None where nothing was ever looked at.
    pub(super) fn shares(&self) -> Option<SessionTime> {
        if self.instants.is_empty() {
            return None;
        }
        let sum = self.at_work() * self.instants();
        let mut classes: Vec<TimeShare> = self
            .parts
            .iter()
            .filter(|(_, part)| part.sessions > 0.0 && part.sessions / sum >= LEAST)
            .map(|(&class, part)| TimeShare {
                class,
                share: part.sessions / sum,
                known_by: most(&part.known_by).map_or(KnownBy::Inferred, |(known_by, _)| *known_by),
                seen: seen(part, sum),
            })
            .collect();
        classes.sort_by(|a, b| b.share.total_cmp(&a.share));
        Some(SessionTime {
            session_seconds_per_second: self.at_work(),
            sleeping: self.sleeping / self.instants(),
            error: classes.first().map_or(0.0, |largest| self.error(largest.class)),
            classes,
            unnamed: 0.0,
            observations: self.observations,
        })
    }

    /// Half of the 95 % interval of a class's share, from how far it differs between blocks of instants. Only what was seen
    /// at instants counts here; what the kernel's clocks add has no error worth a name.
    fn error(&self, class: TimeClass) -> f64 {
        let size = self.instants.len().div_ceil(BLOCKS).max(1);
        let shares: Vec<f64> = self
            .instants
            .chunks(size)
            .filter_map(|block| {
                let all: f64 = block.iter().flat_map(BTreeMap::values).sum();
                let of_class: f64 = block.iter().filter_map(|instant| instant.get(&class)).sum();
                (all > 0.0).then(|| of_class / all)
            })
            .collect();
        let count = shares.len() as f64;
        if let ([instant], true) = (&self.instants[..], count == 1.0) {
            return error_of_one(instant, class);
        }
        if count < 2.0 {
            return 1.0;
        }
        let mean = shares.iter().sum::<f64>() / count;
        let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (T_95 * (variance / count).sqrt()).min(1.0)
    }
}

/// The error of a share that was counted at one instant: the sessions are a sample of what sessions do. One more is counted in the
/// class and one beside it (Agresti and Coull), so that a few that all do the same are not certain.
fn error_of_one(instant: &BTreeMap<TimeClass, f64>, class: TimeClass) -> f64 {
    let all: f64 = instant.values().sum::<f64>() + 2.0;
    let share = (instant.get(&class).copied().unwrap_or_default() + 1.0) / all;
    (1.96 * (share * (1.0 - share) / all).sqrt()).min(1.0)
}

fn most<K>(counted: &BTreeMap<K, f64>) -> Option<(&K, &f64)> {
    counted.iter().max_by(|a, b| a.1.total_cmp(b.1))
}

fn seen(part: &Part, sum: f64) -> Vec<(String, f64)> {
    let mut seen: Vec<(String, f64)> =
        part.seen.iter().map(|(text, sessions)| (text.clone(), sessions / sum)).collect();
    seen.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    seen.truncate(SEEN);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_believed_the_more_sessions_there_were() {
        let error_of = |sessions: usize| {
            let mut account = Account::default();
            account.next_instant();
            for at in 0..sessions {
                account.see(
                    if at % 4 == 0 { TimeClass::Mutex } else { TimeClass::Running },
                    KnownBy::Stack,
                    "",
                );
            }
            account.error(TimeClass::Mutex)
        };
        assert!(error_of(1) > 0.5 && error_of(8) > 0.25, "{} {}", error_of(1), error_of(8));
        assert!(error_of(48) < 0.13 && error_of(400) < 0.05, "{} {}", error_of(48), error_of(400));
    }

    #[test]
    fn shares_add_up_to_one_and_the_error_is_that_of_the_blocks() {
        let mut account = Account::default();
        for instant in 0..100 {
            account.next_instant();
            for _ in 0..3 {
                account.see(TimeClass::RowLock, KnownBy::Stack, "lock_wait");
            }
            if instant % 2 == 0 {
                account.see(TimeClass::Running, KnownBy::Stack, "");
            }
        }
        account.take(&[TimeClass::Running], 1.0);
        account.add(TimeClass::Cpu, 0.75, KnownBy::Counter);
        account.add(TimeClass::CpuQueue, 0.25, KnownBy::Counter);
        let time = account.shares().unwrap();
        assert_eq!(time.session_seconds_per_second, 4.0);
        let shares: Vec<(TimeClass, f64)> = time.classes.iter().map(|one| (one.class, one.share)).collect();
        assert_eq!(
            shares,
            [(TimeClass::RowLock, 0.75), (TimeClass::Cpu, 0.1875), (TimeClass::CpuQueue, 0.0625)]
        );
        assert_eq!(time.classes[0].seen, [("lock_wait".to_owned(), 0.75)]);
        assert!(time.error < 1e-9, "{}", time.error);
        assert_eq!(time.observations, 350);
    }

    #[test]
    fn a_counter_gives_a_name_to_waits_without_one_and_to_no_others() {
        let mut account = Account::default();
        account.next_instant();
        for _ in 0..4 {
            account.see(TimeClass::Other, KnownBy::Inferred, "handler::ha_index_read_map");
        }
        account.see(TimeClass::Other, KnownBy::Stack, "unheard_of");
        account.name_nameless(TimeClass::RowLock, 3.0);
        assert_eq!(account.sessions(&[TimeClass::RowLock]), 3.0);
        assert_eq!(account.sessions(&[TimeClass::Other]), 2.0);
        account.name_nameless(TimeClass::RowLock, 9.0);
        assert_eq!(account.sessions(&[TimeClass::RowLock]), 4.0);
        assert_eq!(account.sessions(&[TimeClass::Other]), 1.0);
        assert_eq!(account.at_work(), 5.0);
        let known_by = |class| {
            let time = account.shares().unwrap();
            time.classes.iter().find(|one| one.class == class).map(|one| one.known_by)
        };
        assert_eq!(known_by(TimeClass::RowLock), Some(KnownBy::Inferred));
        assert_eq!(known_by(TimeClass::Other), Some(KnownBy::Stack));
    }

    #[test]
    fn where_nobody_is_at_work_there_is_no_class_and_where_nobody_looked_no_account() {
        assert_eq!(Account::default().shares(), None);
        let mut idle = Account::default();
        idle.next_instant();
        assert_eq!(idle.shares().unwrap().classes, []);
    }
}
