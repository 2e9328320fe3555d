//! How often the server commits changes, from the counters of its statements.

use spindoctor_model::{Unavailable, Window};

/// Commits a second that wait for the redo log: explicit ones, or single statements that write.
pub(crate) fn commits_per_s(window: &Window) -> Result<f64, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let mut writes = window.need_growth("Com_insert")?;
    writes += window.need_growth("Com_update")? + window.need_growth("Com_delete")?;
    writes += ["Com_replace", "Com_update_multi", "Com_delete_multi"]
        .iter()
        .filter_map(|name| window.status_growth(name))
        .sum::<f64>();
    let explicit = window.need_growth("Com_commit")?;
    // A handful of explicit commits beside a stream of writes: the writes commit by themselves.
    let commits = if explicit * 20.0 >= writes { explicit.min(writes) } else { writes };
    Ok(commits / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn commits_are_not_counted_where_a_counter_of_writes_is_missing() {
        let busy = || Build::busy("8.0.36");
        assert!((commits_per_s(&busy().window()).unwrap() - 400.0).abs() < 1.0);
        for name in ["Com_insert", "Com_update", "Com_delete", "Com_commit"] {
            let missing = commits_per_s(&busy().words(name, "").window()).unwrap_err();
            assert!(missing.because.contains(name), "{missing:?}");
        }
        let without = busy().words("Com_replace", "").window();
        assert!(commits_per_s(&without).is_ok());
    }
}
