//! A prediction for the terminal: how the model fits, what it predicts, what that hangs on, what it leaves out.

use spindoctor_page::number::{percent, plain, quantity};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};
use spindoctor_predict::Fitted;
use unicode_width::UnicodeWidthStr as _;

use super::view::{Prediction, changed, machine};

/// Parameters that are named: those after them move the answer less.
const MOST_NAMED: usize = 3;
/// Settings that are compared in the table.
const MOST_COMPARED: usize = 12;

/// The report.
pub fn render(prediction: &Prediction, look: Look) -> String {
    let mut page = Page::new(look);
    let changes = prediction.changes();
    let what = if changes.is_empty() { "nothing changes".to_owned() } else { changes.join(", ") };
    page.hanging("", "  ", &safe(&format!("A prediction, not a measurement: {what}")), STRONG);
    let ground = &prediction.ground;
    let about = format!(
        "fitted to {} ({}); asked: {}",
        prediction.source,
        machine(&ground.hardware),
        machine(&prediction.hardware)
    );
    page.hanging("", "  ", &safe(&about), QUIET);
    if let Some(recorded) = &prediction.recorded {
        page.hanging("", "  ", &safe(&format!("recorded {recorded}")), QUIET);
    }

    page.blank();
    page.paragraph("", "How the model fits what was measured (transactions/s)", STRONG);
    page.table(&FITTED, prediction.fit.points.iter().map(fitted));
    let off = percent(prediction.fit.rms_log_error.exp() - 1.0);
    page.paragraph(
        "  ",
        &format!("fit error {off} (root mean square); fitted: {}", prediction.fit.fitted.join(", ")),
        QUIET,
    );

    if let Some(error) = prediction.held_out_rms_log_error {
        page.blank();
        page.paragraph("", "What it says of measurements that the fit did not get", STRONG);
        page.table(&FITTED, prediction.held_out.iter().map(fitted));
        let text = format!("error {} (root mean square)", percent(error.exp() - 1.0));
        page.paragraph("  ", &text, QUIET);
    }

    if prediction.compared.len() > 1 {
        compared(&mut page, prediction);
    }

    page.blank();
    page.paragraph("", "What it predicts (transactions/s, both by the model)", STRONG);
    let columns = [
        ("connections", 13),
        ("today", 11),
        ("proposed", 11),
        ("change", 9),
        ("mean", 10),
        ("p95", 10),
        ("CPUs", 7),
        ("spin", 8),
    ];
    let rows = prediction.answer.rows.iter().map(|row| {
        let ratio = row.proposed.throughput_per_s / row.today.throughput_per_s.max(1e-9);
        vec![
            format!("{}{}", row.threads, if row.beyond_measured { "*" } else { "" }),
            plain(row.today.throughput_per_s.round()),
            plain(row.proposed.throughput_per_s.round()),
            signed(ratio - 1.0),
            quantity(row.proposed.mean_ms, "ms"),
            quantity(row.proposed.p95_ms, "ms"),
            format!("{:.1}", row.proposed.cpus),
            percent(row.proposed.spin_share),
        ]
    });
    page.table(&columns, rows);
    if prediction.answer.rows.iter().any(|row| row.beyond_measured) {
        page.paragraph("  ", "* more connections than were measured", QUIET);
    }
    page.paragraph(
        "  ",
        "mean and p95: time of a transaction; spin: part of the CPU time; all of them as proposed",
        QUIET,
    );

    if let Some(trial) = &prediction.trial {
        page.paragraph(
            "  ",
            "Whether a server does as much, a trial on it shows; it looks further from there:",
            PLAIN,
        );
        let is_long = trial.width() + 4 > page.look.width;
        let trial = if is_long { trial.replace(" --only ", " \\\n        --only ") } else { trial.clone() };
        page.push(&format!("    {trial}"));
    }

    page.blank();
    page.paragraph("", "What the answer hangs on", STRONG);
    for it in prediction.answer.sensitivity.iter().take(MOST_NAMED) {
        let known = if it.fitted { "fitted" } else { "assumed, not measured" };
        let text = format!(
            "{} ({known}): a quarter more or less of it, and proposed is {:.2} to {:.2} times today instead of {:.2}",
            it.parameter, it.ratio_low, it.ratio_high, it.ratio
        );
        page.hanging("  ", "  ", &text, PLAIN);
    }

    if !prediction.assumptions.is_empty() {
        page.blank();
        page.paragraph("", "What is assumed, because you said so", STRONG);
        for assumption in &prediction.assumptions {
            page.hanging("  ", "  ", assumption.text(), PLAIN);
        }
    }

    page.blank();
    page.paragraph("", "What the model leaves out", STRONG);
    for text in &prediction.left_out {
        page.hanging("  ", "  ", text, QUIET);
    }
    page.finish()
}

/// Settings side by side, those that do most first.
fn compared(page: &mut Page, prediction: &Prediction) {
    let all = &prediction.compared;
    let most = all.iter().filter_map(|one| one.rows.last()).map(|row| row.threads).max().unwrap_or(0);
    let at_most = format!("with {most}");
    page.blank();
    page.paragraph("", "Settings side by side (transactions/s by the model); the first is proposed", STRONG);
    let columns = [("setting", -46), ("ratio", 10), (at_most.as_str(), 18)];
    let rows = all.iter().take(MOST_COMPARED).map(|one| {
        let values = changed(&prediction.ground.settings, &one.settings);
        let values: Vec<String> =
            values.iter().map(|(variable, value)| format!("{variable} {}", plain(*value))).collect();
        let name = if values.is_empty() { "as measured".to_owned() } else { values.join(", ") };
        let per_s = one.rows.last().map_or(0.0, |row| row.outcome.throughput_per_s);
        vec![name, format!("{:.2}", one.ratio), plain(per_s.round())]
    });
    page.table(&columns, rows);
    if let Some(more) = all.len().checked_sub(MOST_COMPARED).filter(|more| *more > 0) {
        page.paragraph("  ", &format!("and {more} more, which do less"), QUIET);
    }
    let text = "ratio: throughput by that of the settings as they were measured, on this machine: the geometric mean over all \
                numbers of connections";
    page.paragraph("  ", text, QUIET);
}

/// Columns of measurements beside the model.
const FITTED: [(&str, i32); 4] = [("connections", 13), ("measured", 13), ("model", 13), ("off", 9)];

fn fitted(point: &Fitted) -> Vec<String> {
    vec![
        point.threads.to_string(),
        plain(point.measured_per_s.round()),
        plain(point.model_per_s.round()),
        signed(point.model_per_s / point.measured_per_s - 1.0),
    ]
}

/// `+12 %`, `-3 %`
fn signed(ratio: f64) -> String {
    let sign = if ratio < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(ratio.abs()))
}

#[cfg(test)]
mod tests {
    use spindoctor_predict::{
        Answer, Assumption, At, Compared, Fit, Fitted, Flavor, Ground, Hardware, Measured, Outcome,
        Parameters, Question, Row, Sensitivity, Settings, Workload,
    };

    use super::*;
    use crate::predict::view::Answered;

    fn prediction() -> Prediction {
        let measured = vec![Measured { threads: 256, throughput_per_s: 68_369.0 }];
        let ground = Ground {
            hardware: Hardware { cpus: 24, numa_nodes: 2, ..Hardware::default() },
            settings: Settings::for_flavor(Flavor::Mysql55),
            workload: Workload::Reads,
            flush_ns: 0.0,
            server_share: 1.0,
            measured,
        };
        let mut settings = ground.settings.clone();
        settings.set("innodb_sync_spin_loops", "200").unwrap();
        let hardware = Hardware { quota_cpus: Some(2.5), ..ground.hardware.clone() };
        let fit = Fit {
            parameters: Parameters::assumed(&ground),
            fitted: vec!["work of a transaction".to_owned()],
            points: vec![Fitted { threads: 256, measured_per_s: 68_369.0, model_per_s: 61_554.0 }],
            rms_log_error: 0.1,
        };
        let outcome = |throughput_per_s: f64| Outcome {
            throughput_per_s,
            mean_ms: 3.2,
            p95_ms: 8.25,
            cpus: 23.9,
            spin_share: 0.25,
            ..Outcome::default()
        };
        let row = |threads, beyond_measured| Row {
            threads,
            today: outcome(61_554.0),
            proposed: outcome(113_975.0),
            beyond_measured,
        };
        let sensitivity = vec![Sensitivity {
            parameter: "crowding of the CPUs".to_owned(),
            fitted: false,
            ratio: 1.85,
            ratio_low: 1.5,
            ratio_high: 2.0,
        }];
        let answer = Answer { rows: vec![row(256, false), row(1_024, true)], sensitivity };
        let compared = [(settings.clone(), 1.85), (ground.settings.clone(), 1.0)];
        let compared = compared.map(|(settings, ratio)| Compared {
            settings,
            ratio,
            rows: vec![At { threads: 1_024, outcome: outcome(61_554.0 * ratio) }],
        });
        let held_out = vec![Fitted { threads: 512, measured_per_s: 40_510.0, model_per_s: 36_000.0 }];
        let question =
            Question { hardware, settings, threads: vec![256, 1_024], assumptions: vec![Assumption::Quota] };
        let answered = Answered { question, compared: compared.to_vec(), answer };
        Prediction::new(("kernel-mutex.txt".to_owned(), None), ground, fit, held_out, answered)
    }

    #[test]
    fn fitted_and_predicted_points_stand_apart_and_all_fits_80_columns() {
        let text = render(&prediction(), Look { width: 80, colour: false });
        for says in [
            "innodb_sync_spin_loops 30 -> 200",
            "quota, CPUs none -> 2.5",
            "fit error 11 %",
            "1024*",
            "more connections than were measured",
            "assumed, not measured",
            "that the fit did not get",
            "nothing else limits the server",
            "What the model leaves out",
            "innodb_sync_spin_loops 200",
            "as measured",
            "    spindoctor tune --apply --around --only innodb_sync_spin_loops=200",
        ] {
            assert!(text.contains(says), "{says}:\n{text}");
        }
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        let svg = super::super::svg::render(&prediction());
        assert!(svg.starts_with("<svg") && svg.contains("today") && svg.contains("measured"), "{svg}");
    }

    #[test]
    fn what_does_no_more_or_cannot_be_changed_on_a_running_server_is_no_trial() {
        let trial = |ratio: f64, variable: &str, value: &str| {
            let Prediction { ground, fit, held_out, answer, mut compared, hardware, .. } = prediction();
            let mut settings = ground.settings.clone();
            settings.set(variable, value).unwrap();
            compared[0] = Compared { settings: settings.clone(), ratio, ..compared[0].clone() };
            let question = Question { hardware, settings, threads: Vec::new(), assumptions: Vec::new() };
            let answered = Answered { question, compared, answer };
            Prediction::new((String::new(), None), ground, fit, held_out, answered).trial
        };
        assert_eq!(trial(1.04, "innodb_sync_spin_loops", "200"), None);
        assert_eq!(trial(1.85, "log_bin", "on"), None);
        assert_eq!(trial(1.85, "innodb_sync_spin_loops", "30"), None, "as it is");
        assert_eq!(
            trial(1.85, "innodb_spin_wait_delay", "2").as_deref(),
            Some("spindoctor tune --apply --around --only innodb_spin_wait_delay=2")
        );
    }
}
