//! The host, as `spindoctor host` has it, of the last seconds.

use spindoctor_model::Window;
use spindoctor_model::window::NOT_ASKED_FOR;

use crate::host::HostReport;

/// The report. What does not change is read once in hours; that it is not in these seconds is no news.
pub fn report(window: &Window, over_s: f64) -> HostReport {
    let mut report = HostReport::of_last(window, over_s);
    report.not_read.retain(|missing| missing.because != NOT_ASKED_FOR);
    report
}
