//! The order in which a writing statement reaches the fleet: a few servers first, the others when those succeeded.
//! Pure.

use std::str::FromStr;

/// Sizes of waves, in order: `1,10,100%`. The last one is repeated until all servers were asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan(Vec<Size>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    Servers(usize),
    Percent(f64),
}

impl Default for Plan {
    /// One, then ten, then the rest.
    fn default() -> Self {
        Self(vec![Size::Servers(1), Size::Servers(10), Size::Percent(100.0)])
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |word: &str| {
            let word = word.trim();
            match word.strip_suffix('%') {
                Some(percent) => {
                    let percent = percent.trim().parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 100.0);
                    percent.map(Size::Percent)
                }
                None => word.parse().ok().filter(|count| *count > 0).map(Size::Servers),
            }
        };
        let sizes: Option<Vec<Size>> = text.split(',').map(size).collect();
        sizes
            .map(Self)
            .ok_or_else(|| "numbers of servers or percents of all are wanted: 1,10,100%".to_owned())
    }
}

impl Plan {
    /// The waves of these servers, in their order.
    pub fn waves<'a>(&self, servers: &'a [usize]) -> Vec<&'a [usize]> {
        let mut waves = Vec::new();
        let mut sizes = self.0.iter();
        let mut size = Size::Percent(100.0);
        let mut rest = servers;
        while !rest.is_empty() {
            size = sizes.next().copied().unwrap_or(size);
            let count = match size {
                Size::Servers(count) => count,
                Size::Percent(percent) => (servers.len() as f64 * percent / 100.0).ceil() as usize,
            };
            let (wave, behind) = rest.split_at(count.clamp(1, rest.len()));
            waves.push(wave);
            rest = behind;
        }
        waves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(plan: &str, servers: usize) -> Vec<usize> {
        let all: Vec<usize> = (0..servers).collect();
        plan.parse::<Plan>().unwrap().waves(&all).iter().map(|wave| wave.len()).collect()
    }

    #[test]
    fn waves_grow_and_reach_everybody() {
        assert_eq!(sizes("1,10,100%", 1000), [1, 10, 989]);
        assert_eq!(sizes("1,10,100%", 5), [1, 4]);
        assert_eq!(sizes("25%", 10), [3, 3, 3, 1]);
        assert_eq!(sizes("2", 5), [2, 2, 1]);
        assert_eq!(sizes("100%", 0), [0; 0]);
        assert_eq!(Plan::default(), "1,10,100%".parse().unwrap());
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for wrong in ["", "0", "1,,2", "-1", "101%", "0%", "x"] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
