//! Functions of the server that are watched by probes: as the user names them, and what is seen there in words.

use std::fmt;
use std::time::Duration;

use spindoctor_page::number;
use spindoctor_stacks::capture::trigger::When;

/// Longer than any name that a compiler gives a function of MySQL without its arguments; one with them has up to some
/// thousand characters, and stands in each event.
const LONGEST_NAME: usize = 500;

/// A function that is watched inside the server, and what is waited for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watchpoint {
    /// As a stack shows it, or as the symbol table has it.
    pub function: String,
    /// How many threads at once, or how long one.
    pub when: When,
}

impl fmt::Display for Watchpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Inside(threads) => {
                let threads = number::counted(u64::from(threads), "thread", "threads");
                write!(f, "more than {threads} in {}", self.function)
            }
            When::Slower(time) => write!(f, "a thread in {} for {}", self.function, milliseconds(time)),
        }
    }
}

/// A time as `134 ms`.
pub fn milliseconds(time: Duration) -> String {
    number::quantity(time.as_secs_f64() * 1e3, "ms")
}

/// What the probes of all watchpoints cost the server, in words.
pub fn cost(hits: u64, cpu: Duration, untracked: u64) -> String {
    let text = format!(
        "the watchpoints were hit {} and cost the server {} of CPU",
        number::counted(hits, "time", "times"),
        milliseconds(cpu)
    );
    match untracked {
        0 => text,
        _ => format!("{text}; {} not seen", number::counted(untracked, "call was", "calls were")),
    }
}

/// `log_write_up_to:100ms`
pub fn slower(text: &str) -> Result<Watchpoint, String> {
    let (function, time) = function_and_bound(text, "FUNCTION:TIME: log_write_up_to:100ms")?;
    let unit = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("{time:?} is not a time; use us, ms or s: log_write_up_to:100ms")),
    };
    let number: f64 =
        time[..time.len() - unit.len()].parse().map_err(|_| format!("{time:?} is not a time"))?;
    let seconds = number * seconds_per_unit;
    if !(1e-6..=3_600.0).contains(&seconds) {
        return Err("it must be between 1us and 1 hour".to_owned());
    }
    Ok(Watchpoint { function: function.to_owned(), when: When::Slower(Duration::from_secs_f64(seconds)) })
}

/// `lock_wait_suspend_thread:20`
pub fn inside(text: &str) -> Result<Watchpoint, String> {
    let (function, count) = function_and_bound(text, "FUNCTION:COUNT: lock_wait_suspend_thread:20")?;
    let count = count.parse().map_err(|_| format!("{count:?} is not a number of threads"))?;
    Ok(Watchpoint { function: function.to_owned(), when: When::Inside(count) })
}

/// What stands before and behind the last colon: a C++ name has some of its own.
fn function_and_bound<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    let parts = text.rsplit_once(':');
    let (function, bound) = parts
        .filter(|(function, _)| !function.is_empty() && !function.ends_with(':'))
        .ok_or_else(|| format!("write {form}"))?;
    if function.len() > LONGEST_NAME || function.chars().any(char::is_control) {
        return Err(format!("the function's name has more than {LONGEST_NAME} bytes, or is not a name"));
    }
    Ok((function, bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchpoint_is_a_function_and_a_bound() {
        let watched = |function: &str, when| Ok(Watchpoint { function: function.to_owned(), when });
        assert_eq!(inside("THD::wait_for:20"), watched("THD::wait_for", When::Inside(20)));
        let hundred = When::Slower(Duration::from_millis(100));
        assert_eq!(slower("log_write_up_to:100ms"), watched("log_write_up_to", hundred));
        let long = format!("{}:5ms", "f".repeat(501));
        for (wrong, reason) in [
            ("f", "write FUNCTION:TIME"),
            ("f::g", "write FUNCTION:TIME"),
            ("f:5", "use us, ms or s"),
            ("f:0ms", "between"),
            ("f\u{1b}[1m:5ms", "is not a name"),
            (long.as_str(), "more than 500 bytes"),
        ] {
            assert!(slower(wrong).unwrap_err().contains(reason), "{wrong}");
        }
        for wrong in ["f", ":5", "f::g", "f:-1", "f:x"] {
            assert!(inside(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_watchpoint_says_what_it_waits_for() {
        assert_eq!(inside("THD::wait_for:20").unwrap().to_string(), "more than 20 threads in THD::wait_for");
        assert_eq!(inside("THD::wait_for:1").unwrap().to_string(), "more than 1 thread in THD::wait_for");
        assert_eq!(slower("f:1.5s").unwrap().to_string(), "a thread in f for 1.5 s");
    }
}
