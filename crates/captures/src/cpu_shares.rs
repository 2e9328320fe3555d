//! Shares of the CPUs' time in the head of `top`, in each form that it has had: of all CPUs together, or a line for each.
//!
//! ```text
//! %Cpu(s): 94.2 us,  4.9 sy,  0.0 ni,  0.6 id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st
//! Cpu(s): 94.2%us,  4.9%sy,  0.0%ni,  0.6%id,  0.1%wa,  0.0%hi,  0.2%si,  0.0%st      before procps 3.3
//! %Cpu12 :  9.1 us,  1.0 sy,  0.0 ni, 89.9 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st      where `1` was pressed
//! CPU:  3.5% user,  0.0% nice,  1.2% system,  0.1% interrupt, 95.2% idle               the BSDs, busybox, macOS
//! ```

/// Shares of the CPUs' time, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Shares {
    /// CPUs do nothing.
    pub(crate) idle: f64,
    /// They do nothing but wait for a disk.
    pub(crate) waiting: f64,
    pub(crate) kernel: f64,
    pub(crate) programs: f64,
}

/// How the shares are called.
const IDLE: &[&str] = &["id", "idle"];
const WAITING: &[&str] = &["wa", "io", "iowait"];
const KERNEL: &[&str] = &["sy", "sys", "system"];
const PROGRAMS: &[&str] = &["us", "usr", "user"];
/// Those that are read here for their sum alone.
const OTHERS: &[&str] = &["ni", "nic", "nice", "hi", "irq", "si", "sirq", "st", "interrupt"];

/// The shares are rounded: what their sum may be away from all of the time, percent.
const ROUNDED: f64 = 1.0;
/// More than all of the time is none, percent.
const MOST: f64 = 110.0;

/// The shares of the last screen in a text: of all CPUs, or the mean of those that it shows one by one.
pub(crate) fn last(text: &str) -> Option<Shares> {
    let mut of_screen: Vec<Shares> = Vec::new();
    let mut is_list = false;
    for line in text.lines() {
        let found = of_line(line);
        if let Some((shares, is_one)) = found {
            if !(is_list && is_one) {
                of_screen.clear();
            }
            of_screen.push(shares);
        }
        is_list = found.is_some_and(|(_, is_one)| is_one) || is_list && line.trim().is_empty();
    }
    let mean = |of: fn(&Shares) -> f64| of_screen.iter().map(of).sum::<f64>() / of_screen.len().max(1) as f64;
    (!of_screen.is_empty()).then(|| Shares {
        idle: mean(|shares| shares.idle),
        waiting: mean(|shares| shares.waiting),
        kernel: mean(|shares| shares.kernel),
        programs: mean(|shares| shares.programs),
    })
}

/// The shares of a line, and whether they are those of one CPU among several.
fn of_line(line: &str) -> Option<(Shares, bool)> {
    const OF_ALL: [&str; 3] = ["CPU:", "CPU states:", "CPU usage:"];
    if let Some((_, shares)) = line.split_once("Cpu(s):") {
        return Some((shares_in(shares)?, false));
    }
    let line = line.trim_start();
    if let Some(shares) = OF_ALL.iter().find_map(|name| line.strip_prefix(name)) {
        return Some((shares_in(shares)?, false));
    }
    let number = line.trim_start_matches('%').strip_prefix("Cpu")?;
    let behind = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let shares = behind.trim_start().strip_prefix(':').filter(|_| behind.len() < number.len())?;
    Some((shares_in(shares)?, true))
}

/// `94.2 us,  4.9 sy`, `94.2%us`, `3.5% user`. A page that took the points out of the numbers shows ten times as much of each: `942 us,
/// 49 sy`, of which the sum says it.
fn shares_in(text: &str) -> Option<Shares> {
    let text = with_points(text);
    let words: Vec<&str> = text.split([',', ' ', '\t', '%']).filter(|word| !word.is_empty()).collect();
    let of = |names: &[&str]| -> Option<f64> {
        let at = words.iter().position(|word| names.contains(word))?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let all = |names: &[&str]| names.iter().filter_map(|name| of(&[*name])).sum::<f64>();
    let sum: f64 = [IDLE, WAITING, KERNEL, PROGRAMS, OTHERS].into_iter().map(all).sum();
    let scale = if (sum / 10.0 - 100.0).abs() <= ROUNDED { 0.1 } else { 1.0 };
    let or_none = |names: &[&str]| of(names).unwrap_or(0.0) * scale;
    let shares = Shares {
        idle: of(IDLE)? * scale,
        waiting: or_none(WAITING),
        kernel: or_none(KERNEL),
        programs: or_none(PROGRAMS),
    };
    (sum * scale <= MOST).then_some(shares)
}

/// A text with points in its numbers where they have decimal commas: `54,2 us,  4,9 sy`.
fn with_points(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        let is_within =
            plain.ends_with(|c: char| c.is_ascii_digit()) && letters.peek().is_some_and(char::is_ascii_digit);
        plain.push(if letter == ',' && is_within { '.' } else { letter });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percents(text: &str) -> Option<[u32; 4]> {
        let shares = last(text)?;
        Some([shares.programs, shares.kernel, shares.waiting, shares.idle].map(|share| share.round() as u32))
    }

    #[test]
    fn of_cpus_that_are_shown_one_by_one_the_mean_counts() {
        let new = "%Cpu0  : 90.0 us,  2.0 sy,  0.0 ni,  8.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\
                   %Cpu1  : 10.0 us,  4.0 sy,  0.0 ni,  6.0 id, 80.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
        assert_eq!(percents(new), Some([50, 3, 40, 7]));
        let old = "Cpu0  : 90.0%us,  2.0%sy,  0.0%ni,  8.0%id,  0.0%wa,  0.0%hi,  0.0%si,  0.0%st\n\n\
                   Cpu1  : 10.0%us,  4.0%sy,  0.0%ni,  6.0%id, 80.0%wa,  0.0%hi,  0.0%si,  0.0%st\nMem: 1k total\n";
        assert_eq!(percents(old), Some([50, 3, 40, 7]));
        let first = new.replace("90.0 us", "30.0 us").replace("8.0 id", "68.0 id");
        assert_eq!(percents(&format!("{first}top - 14:02:12 up 3 days\n{new}")), Some([50, 3, 40, 7]));
    }

    #[test]
    fn numbers_that_lost_their_points_are_read_by_their_sum_and_more_than_all_is_none() {
        let lost = "%Cpu(s): 187 us, 30 sy, 00 ni, 375 id, 406 wa, 02 hi, 00 si, 00 st\n";
        assert_eq!(percents(lost), Some([19, 3, 41, 38]));
        assert_eq!(percents(&lost.replace("406", "906")), None);
        assert_eq!(percents("%Cpu(s): 54,2 us,  4,9 sy,  0,0 ni, 40,9 id,  0,0 wa\n"), Some([54, 5, 0, 41]));
    }

    #[test]
    fn other_systems_have_names_of_their_own() {
        let bsd = "CPU: 31.5% user,  0.0% nice,  8.2% system,  0.1% interrupt, 60.2% idle\n";
        assert_eq!(percents(bsd), Some([32, 8, 0, 60]));
        let busybox = "CPU:  31% usr   8% sys   0% nic  55% idle   6% io   0% irq   0% sirq\n";
        assert_eq!(percents(busybox), Some([31, 8, 6, 55]));
        for line in [
            "CPU: 3 PID: 711 Comm: mysqld Not tainted",
            "CPU: Intel Core, speed 2396.91 MHz (estimated)",
            "Cpu: 1",
        ] {
            assert_eq!(percents(line), None, "{line}");
        }
    }
}
