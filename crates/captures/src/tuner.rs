//! What mysqltuner prints: what it finds wrong (`[!!]`), in its own words. No cause rests on it, for its numbers are of all time since the
//! server's start and its rules of thumb are its own.

/// Findings that are shown.
const SHOWN: usize = 12;
/// Characters of one that are shown.
const LONGEST: usize = 160;

/// Words of the titles of its sections (mysqltuner.pl, subheaderprint): `-------- Performance Metrics ---...`.
const TITLES: [&str; 8] = [
    "Recommendations",
    "Statistics",
    "Metrics",
    "Performance schema",
    "Information",
    "Analysis",
    "Status",
    "Results",
];

/// True for the line with which it begins, ` >>  MySQLTuner 1.9.9`, and for the title of a section of it.
pub(crate) fn is_head(line: &str) -> bool {
    let line = line.trim();
    line.strip_prefix(">>").is_some_and(|rest| rest.trim_start().starts_with("MySQLTuner ")) || is_title(line)
}

fn is_title(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("-------- ") else { return false };
    let title = rest.trim_end_matches('-');
    rest.len() - title.len() >= 8 && TITLES.iter().any(|word| title.contains(word))
}

/// What it finds wrong, those of InnoDB first: of the others most are habits.
pub(crate) fn read(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("[!!]"))
        .map(|line| line.trim().chars().take(LONGEST).collect())
        .collect();
    found.sort_by_key(|line: &String| !line.to_ascii_lowercase().contains("innodb"));
    let left_out = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    let mut says = vec!["what mysqltuner finds, by its own rules of thumb; no cause rests on it:".to_owned()];
    says.extend(found);
    if left_out > 0 {
        says.push(format!("{left_out} more"));
    }
    says
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_finds_wrong_is_said() {
        let text = " >>  MySQLTuner 1.9.9\n[OK] fine\n[!!] name resolution is active\n[--] 1) 2022-10-24  6:21:04 0 [Note] ready\n\
                    [!!] InnoDB buffer pool / data size: 128.0M / 46.8G\n";
        assert!(is_head(text.lines().next().unwrap()));
        assert_eq!(
            read(text)[1..],
            ["InnoDB buffer pool / data size: 128.0M / 46.8G", "name resolution is active"]
        );
    }

    #[test]
    fn sections_without_the_banner_are_its_own() {
        let text = "-------- Performance Metrics -----------------------------------\n[--] Up for: 3d\n\
                    [!!] Temporary tables created on disk: 91% (9 on disk / 10 total)\n[OK] Slow queries: 0% (2/534)\n";
        for text in [text.to_owned(), format!("all of it:\n\n```\n{text}```\n")] {
            let parts = crate::recognise("a.txt", &text);
            assert_eq!(parts.len(), 1, "{parts:?}");
            assert_eq!(parts[0].says[1..], ["Temporary tables created on disk: 91% (9 on disk / 10 total)"]);
        }
        for line in
            ["-------- Metrics", "------------------------", "-------- Original Message --------", "--------"]
        {
            assert!(!is_head(line), "{line}");
        }
    }
}
