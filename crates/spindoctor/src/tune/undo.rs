//! Undo tablespaces in a trial: `--only undo_tablespaces=8` makes them, compares, and keeps or drops them.

use anyhow::bail;
use spindoctor_model::{Change, Proposal, Remedy, number};
use spindoctor_tune::apply::{Settings, UndoBack, UndoMade, UndoStep};
use spindoctor_tune::measure::Meter;
use spindoctor_tune::undo::{self, stand_in};
use spindoctor_tune::variables::{Variable, find};

use crate::common::session::note;

/// What is toggled in the trial.
pub(super) const SEGMENTS: &str = "innodb_rollback_segments";
/// How large each may grow.
const LIMIT: &str = "innodb_max_undo_log_size";

/// Why the plan's own are not made without being named.
const NOT_NAMED: &str = "it makes files on the disk, which takes `--only undo_tablespaces`";

/// Undo tablespaces that are to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// So many active ones.
    pub(super) tablespaces: u32,
}

impl Wanted {
    /// What the plan proposes; none where it proposes none.
    pub(super) fn of_proposals(proposals: &[Proposal]) -> Option<Self> {
        let changes = proposals.iter().flat_map(|proposal| &proposal.changes);
        let number = changes
            .filter(|change| undo::is_named(&change.variable))
            .find_map(|change| undo::count(&change.to).ok());
        number.map(|tablespaces| Self { tablespaces })
    }
}

/// Proposals of undo tablespaces, where nobody named them, are shown and not tried.
pub(super) fn leave_unnamed(proposals: &mut [Proposal]) {
    let makes_files =
        |proposal: &&mut Proposal| proposal.changes.iter().any(|change| undo::is_named(&change.variable));
    for proposal in proposals.iter_mut().filter(makes_files) {
        proposal.not_tried = Some(NOT_NAMED.to_owned());
    }
}

/// The variable that the trial toggles.
pub(super) fn segments() -> anyhow::Result<&'static Variable> {
    Ok(find(SEGMENTS)?)
}

/// Makes them, and says what the trial compares: their proposal stands for all that `proposals` and `given` would change.
pub(super) async fn make(
    wanted: Wanted,
    proposals: &[Proposal],
    settings: &mut Settings,
    meter: &mut Meter,
    is_to_stop: &dyn Fn() -> bool,
) -> anyhow::Result<(Proposal, UndoMade)> {
    // A value that the user gives comes last, and counts.
    let mut others: Vec<&Change> = Vec::new();
    let changes = proposals.iter().flat_map(|proposal| &proposal.changes);
    for change in changes.filter(|change| !undo::is_named(&change.variable)) {
        others.retain(|other| other.variable != change.variable);
        others.push(change);
    }
    let asked =
        |name: &str| others.iter().find(|change| change.variable == name).map(|change| change.to.clone());
    let original = settings.original(SEGMENTS).unwrap_or_default().to_owned();
    let now: u32 = original.parse().unwrap_or(1);
    let each = asked(SEGMENTS).and_then(|value| value.parse().ok()).unwrap_or(now);
    let active = settings.active_undo().await?;
    let before = active * now;
    let old = stand_in(before, wanted.tablespaces);
    if wanted.tablespaces > active && old >= each {
        bail!(
            "{} undo tablespaces with {SEGMENTS} = {each} have no more rollback segments to compare than {active} have now; raise that first, or together: --only {SEGMENTS}=128",
            wanted.tablespaces
        );
    }
    settings.watch_undo(say);
    let limit = asked(LIMIT).and_then(|value| value.parse().ok());
    let host = meter.host().cloned();
    let made = settings.make_undo(wanted.tablespaces, limit, host.as_ref(), is_to_stop).await?;
    let all = made.active_before + made.names.len() as u32;
    meter.watch_undo(&made.folder, all * now).await?;
    let changes = compared(old, each, &others);
    let whys: Vec<&str> = proposals.iter().map(|proposal| proposal.remedy.why.as_str()).collect();
    let proposal = Proposal {
        family: "undo-tablespaces".to_owned(),
        changes,
        remedy: Remedy {
            statement: create_text(&made),
            why: whys.join(" "),
            dynamic: true,
            risk: "Disk: a tablespace grows to its limit and a step beyond, and is truncated only when no transaction needs its undo."
                .to_owned(),
            undo: drop_text(&made),
        },
        cost: compared_text(&made, old, each),
        ..Proposal::default()
    };
    Ok((proposal, made))
}

/// What old and new blocks set.
fn compared(old: u32, each: u32, others: &[&Change]) -> Vec<Change> {
    let segments = Change { variable: SEGMENTS.to_owned(), from: old.to_string(), to: each.to_string() };
    let rest = others.iter().filter(|change| change.variable != SEGMENTS).map(|&change| {
        // Their room was reckoned with it: it holds in old blocks, too.
        let from = if change.variable == LIMIT { &change.to } else { &change.from };
        Change { from: from.clone(), ..change.clone() }
    });
    std::iter::once(segments).chain(rest).collect()
}

/// What the trial compares, in words.
fn compared_text(made: &UndoMade, old: u32, each: u32) -> String {
    let all = made.active_before + made.names.len() as u32;
    format!(
        "with {all} undo tablespaces in place, old blocks have {SEGMENTS} = {old}: {} rollback segments, about as many as {} tablespaces had before; new blocks have {}",
        old * all,
        made.active_before,
        each * all
    )
}

/// The notes that belong into the trial's report.
pub(super) fn notes(made: &UndoMade, proposal: &Proposal) -> Vec<String> {
    let names = match made.names.as_slice() {
        [] => String::new(),
        [one] => format!(" ({one})"),
        [first, .., last] => format!(" ({first} to {last})"),
    };
    vec![format!("{}{names}: {}", made_text(made.names.len() as u32), proposal.cost)]
}

/// The statement that makes the first, and so on.
fn create_text(made: &UndoMade) -> String {
    let first = made.names.first().map_or("", String::as_str);
    let further = match made.names.as_slice() {
        [_, .., last] => format!(", and so on up to {last}"),
        _ => String::new(),
    };
    format!("CREATE UNDO TABLESPACE {first} ADD DATAFILE '{first}.ibu'{further}")
}

/// The statements that take them away.
pub(super) fn drop_text(made: &UndoMade) -> String {
    let first = made.names.first().map_or("", String::as_str);
    let further = match made.names.as_slice() {
        [_, .., last] => format!("; so with each up to {last}"),
        _ => String::new(),
    };
    format!(
        "ALTER UNDO TABLESPACE {first} SET INACTIVE; when INNODB_TABLESPACES says it is empty, DROP UNDO TABLESPACE {first}{further}"
    )
}

/// What is kept, in a sentence.
pub(super) fn kept_text(made: &UndoMade) -> String {
    let names = match made.names.as_slice() {
        [first, .., last] => format!("{first} to {last}"),
        names => names.concat(),
    };
    let counted = number::counted(made.names.len() as u64, "undo tablespace", "undo tablespaces");
    format!("Kept, also over a restart: {counted}, {names}.")
}

/// What became of them, in a sentence.
pub(super) fn back_text(back: &UndoBack) -> String {
    let text = back.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{}{}.", first.map(String::from).unwrap_or_default(), letters.as_str())
}

/// `6 undo tablespaces were made`.
fn made_text(number: u32) -> String {
    match number {
        1 => "1 undo tablespace was made".to_owned(),
        number => format!("{number} undo tablespaces were made"),
    }
}

/// On standard error, while it goes on.
fn say(step: UndoStep) {
    match step {
        UndoStep::Made { number, of } if number == of => note(&made_text(of)),
        UndoStep::VariablesBack => note("undo tablespaces are emptied and dropped; that waits for purge"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(names: &[&str]) -> UndoMade {
        UndoMade {
            active_before: 2,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            folder: "./".to_owned(),
            bytes_before: 32 << 20,
            budget_bytes: 10 << 30,
        }
    }

    fn proposal(changes: &[(&str, &str)]) -> Proposal {
        let change = |&(variable, to): &(&str, &str)| Change {
            variable: variable.to_owned(),
            from: "1".to_owned(),
            to: to.to_owned(),
        };
        Proposal { changes: changes.iter().map(change).collect(), ..Proposal::default() }
    }

    #[test]
    fn the_plans_own_number_is_taken_and_without_a_name_nothing_is_made() {
        let mut proposals =
            [proposal(&[("innodb_io_capacity", "2000")]), proposal(&[("undo_tablespaces", "127")])];
        assert_eq!(Wanted::of_proposals(&proposals), Some(Wanted { tablespaces: 127 }));
        assert_eq!(Wanted::of_proposals(&proposals[..1]), None);
        leave_unnamed(&mut proposals);
        assert_eq!(proposals[0].not_tried, None);
        assert!(proposals[1].not_tried.as_ref().is_some_and(|why| why.contains("--only undo_tablespaces")));
    }

    #[test]
    fn the_size_that_they_were_made_for_holds_in_old_blocks_too() {
        let asked = proposal(&[(LIMIT, "67108864"), ("innodb_sync_spin_loops", "60"), (SEGMENTS, "64")]);
        let others: Vec<&Change> = asked.changes.iter().collect();
        let changes = compared(16, 64, &others);
        let values: Vec<(&str, &str, &str)> = changes
            .iter()
            .map(|change| (change.variable.as_str(), change.from.as_str(), change.to.as_str()))
            .collect();
        assert_eq!(
            values,
            [(SEGMENTS, "16", "64"), (LIMIT, "67108864", "67108864"), ("innodb_sync_spin_loops", "1", "60")]
        );
    }

    #[test]
    fn what_is_compared_and_how_it_is_undone_is_said_in_words() {
        let six = made(&["a_001", "a_002", "a_003", "a_004", "a_005", "a_006"]);
        let compared = compared_text(&six, 32, 128);
        assert!(
            compared.contains("8 undo tablespaces") && compared.contains("256 rollback segments"),
            "{compared}"
        );
        assert!(compared.ends_with("new blocks have 1024"), "{compared}");
        assert!(drop_text(&six).ends_with("DROP UNDO TABLESPACE a_001; so with each up to a_006"));
        assert!(drop_text(&made(&["a_001"])).ends_with("DROP UNDO TABLESPACE a_001"));
        assert_eq!(kept_text(&made(&["a_001"])), "Kept, also over a restart: 1 undo tablespace, a_001.");
        assert_eq!(made_text(1), "1 undo tablespace was made");
        assert_eq!(kept_text(&six), "Kept, also over a restart: 6 undo tablespaces, a_001 to a_006.");
        let back = UndoBack { dropped: 6, ..UndoBack::default() };
        assert_eq!(back_text(&back), "6 undo tablespaces were dropped.");
        let left = UndoBack {
            dropped: 1,
            left: vec!["a_002".to_owned()],
            why: Some("purge has not come to them yet".to_owned()),
            is_kept: false,
        };
        assert_eq!(
            back_text(&left),
            "1 undo tablespace was dropped; 1 undo tablespace left (a_002): purge has not come to them yet."
        );
    }
}
