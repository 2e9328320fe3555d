//! The hint for a misspelt name.

/// How alike two names must be to be offered for each other (Jaro-Winkler, 0 to 1): `row-lock-pile` finds
/// `row-lock-pileup`, `foo` finds nothing.
const ALIKE: f64 = 0.8;

/// Names that much less alike than the best are not meant.
const AS_ALIKE: f64 = 0.05;

/// The hint for a misspelt name: the nearest names, or the command that lists all.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, list_command: &str) -> String {
    let name = name.to_ascii_lowercase();
    let alike = |candidate: &str| match candidate.contains(&name) {
        true => 1.0,
        false => strsim::jaro_winkler(&name, candidate),
    };
    let mut near: Vec<(f64, &str)> = names.map(|candidate| (alike(candidate), candidate)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = near.first().map_or(0.0, |(alike, _)| *alike);
    let meant = near.iter().take(3).filter(|(alike, _)| *alike >= ALIKE && *alike >= best - AS_ALIKE);
    let meant: Vec<&str> = meant.map(|(_, candidate)| *candidate).collect();
    match meant.as_slice() {
        [] => format!("`{list_command}` lists all"),
        names => format!("did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        const NAMES: [&str; 4] =
            ["row-lock-pileup", "cpu-throttled", "connection-churn", "connections-exhausted"];
        let answer = |name| nearest(name, NAMES.into_iter(), "spindoctor explain");
        assert_eq!(answer("row-lock-pile"), "did you mean row-lock-pileup?");
        assert_eq!(answer("connection-exhausted"), "did you mean connections-exhausted?");
        assert_eq!(answer("EXHAUSTED"), "did you mean connections-exhausted?");
        assert_eq!(answer("connection"), "did you mean connection-churn or connections-exhausted?");
        assert_eq!(answer("zzz"), "`spindoctor explain` lists all");
    }
}
