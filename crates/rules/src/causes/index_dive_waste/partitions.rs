//! Estimates that are made in partitions of a table.

use spindoctor_model::{Evidence, Remedy, Window};

use crate::below::is_below;
use crate::dives::DIVES;
use crate::sessions;
use crate::spin_samples::names;

/// How the functions of tables with partitions begin: InnoDB's own (ha_innopart.cc, partition_handler.cc), and those of the engine that
/// MySQL had before 8.0 and MariaDB has (ha_partition.cc).
const OF_PARTITIONS: [&str; 3] = ["ha_innopart::", "Partition_helper::", "ha_partition::"];

/// Part of the dives that must lie in them. Chosen: more than half is most.
const MOST: f64 = 0.5;

/// Dives in stacks and samples below which they say nothing of the tables. Chosen.
const SEEN: usize = 20;

/// Dives of which most are into tables with partitions.
pub(super) struct Partitions {
    /// Share of the CPU samples in partitions, 0 to 1: estimates, and the reads behind them.
    cpu_share: f64,
}

impl Partitions {
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let profile = window.profile.value()?;
        let is_of_one = |name: &str| OF_PARTITIONS.iter().any(|begin| name.starts_with(begin));
        let (mut dives, mut in_partitions) = (0_usize, 0_usize);
        for seen in profile.observations.iter().chain(&profile.cpu_samples) {
            if is_below(profile, seen, DIVES) {
                dives += 1;
                in_partitions += usize::from(names(profile, seen).any(is_of_one));
            }
        }
        let samples = profile.samples();
        let of_cpu = samples.iter().filter(|sample| names(profile, sample).any(is_of_one)).count();
        (dives >= SEEN && in_partitions as f64 >= MOST * dives as f64)
            .then(|| Self { cpu_share: of_cpu as f64 / samples.len().max(1) as f64 })
    }

    /// The end of what a headline says of the dives. Of single values only a table with many partitions makes so much work.
    pub(super) fn headline(is_of_lists: bool) -> &'static str {
        if is_of_lists { " in partitions of a table" } else { ", most likely in each partition of the table" }
    }

    pub(super) fn why() -> &'static str {
        "The statements that were seen at work compare with single values, and the dives are in partitions. Without a condition on the \
         column that the table is partitioned by, a value is looked up in each partition, by the estimate first and by the read then, \
         whatever eq_range_index_dive_limit is."
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence::new("CPU in partitions, estimates and reads", self.cpu_share, "ratio", "CPU samples")
    }

    /// What leaves fewer partitions to look into.
    pub(super) fn remedies(window: &Window, statement: Option<&str>) -> [Remedy; 2] {
        let explain = match window.server.version {
            Some(version) if !version.mysql_at_least(5, 7, 0) => "EXPLAIN PARTITIONS",
            _ => "EXPLAIN",
        };
        let of = statement.map_or_else(|| "of the statement".to_owned(), sessions::shortened);
        [
            Remedy {
                statement: format!("{explain} {of}; then a condition on the column that the table is partitioned by"),
                why: "Its column `partitions` lists those that the statement looks into. With that condition only those are left that can \
                      have such rows."
                    .into(),
                dynamic: true,
                risk: "EXPLAIN only reads. The application must know a value, or a range, for the condition.".into(),
                undo: "The statement as it was.".into(),
            },
            Remedy {
                statement: "Fewer and larger partitions; or the table without any, with an index that begins with the columns that the \
                            statement compares"
                    .into(),
                why: "Each partition has its own tree of each index: what one descent finds in a table without partitions takes as many \
                      as there are."
                    .into(),
                dynamic: true,
                risk: "ALTER TABLE copies the table, and keeps changes out meanwhile. Without partitions old rows are deleted one by one."
                    .into(),
                undo: "ALTER TABLE ... PARTITION BY, as SHOW CREATE TABLE has it before.".into(),
            },
        ]
    }
}
