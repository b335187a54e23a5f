//! Durations of runs as marks in a plot of fixed size, which the page draws.

use crate::domain::formatting::{TimeFormatter, format_duration};
use crate::domain::timestamp::{MICROS_PER_SEC, Timestamp};

/// Width and height of the plot.
pub(crate) const SIZE: (i64, i64) = (720, 160);
/// Free space around the marks.
const MARGIN: i64 = 12;
/// Width of the labels of the scale, at the left of the marks.
const LABEL_WIDTH: i64 = 110;
/// Ratio of the longest run to the median above which the scale is logarithmic.
const LOG_SCALE_RATIO: i64 = 50;
/// Maximum number of lines of the scale.
const MAX_SCALE_LINES: i64 = 4;
/// Durations at which the scale may have a line, in seconds. A linear scale has lines at multiples
/// of one of them.
const SCALE_SECONDS: [i64; 17] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
];
/// Durations at which a logarithmic scale has a line, in seconds.
const LOG_SCALE_SECONDS: [i64; 7] = [1, 10, 60, 600, 3_600, 21_600, 86_400];
/// Minimum distance between two lines of a logarithmic scale.
const MIN_LINE_DISTANCE: i64 = 20;

/// A measured run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlottedRun {
    /// End of the run.
    pub(crate) end: Timestamp,
    /// Duration in microseconds, never negative.
    pub(crate) took: i64,
    /// True if the run failed.
    pub(crate) failed: bool,
}

/// Mark of a run in the plot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlotMark {
    pub(crate) x: i64,
    pub(crate) y: i64,
    pub(crate) failed: bool,
    /// Time and duration of the run.
    pub(crate) title: String,
}

/// Line of the scale.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScaleLine {
    pub(crate) y: i64,
    /// Duration at the line.
    pub(crate) label: String,
}

/// The plot and its captions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurationPlot {
    /// One mark for each run, oldest first, from left to right.
    pub(crate) marks: Vec<PlotMark>,
    /// Lines of the scale, the shortest duration first. Empty if every run took less than a second.
    pub(crate) scale: Vec<ScaleLine>,
    /// Ends of the first and the last run.
    pub(crate) span: [String; 2],
    /// Vertical position of the line of the 95th percentile.
    pub(crate) p95_y: i64,
    /// Vertical position of the line of the median.
    pub(crate) median_y: i64,
    /// Median as text.
    pub(crate) median: String,
    /// 95th percentile as text.
    pub(crate) p95: String,
    /// Longest duration as text. It is the top of the plot.
    pub(crate) longest: String,
    /// True if the scale is logarithmic.
    pub(crate) is_logarithmic: bool,
}

/// Plot of these runs, given oldest first. `None` for fewer than two.
pub(crate) fn plot_durations(
    runs: &[PlottedRun],
    times: &TimeFormatter<'_>,
) -> Option<DurationPlot> {
    let [first, .., last] = runs else { return None };
    let mut sorted: Vec<_> = runs.iter().map(|run| run.took).collect();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    let longest = *sorted.last()?;
    // Nearest-rank method.
    let p95 = *sorted.get((sorted.len() * 95).div_ceil(100) - 1)?;
    let is_logarithmic = longest > median.saturating_mul(LOG_SCALE_RATIO);
    let height = |took: i64| {
        let share = match is_logarithmic {
            true => (took as f64).ln_1p() / (longest as f64).ln_1p(),
            false => took as f64 / (longest as f64).max(1.0),
        };
        SIZE.1 - MARGIN - (share * (SIZE.1 - 2 * MARGIN) as f64).round() as i64
    };
    let steps = runs.len() as i64 - 1;
    let mark = |(at, run): (i64, &PlottedRun)| PlotMark {
        x: LABEL_WIDTH + at * (SIZE.0 - LABEL_WIDTH - MARGIN) / steps,
        y: height(run.took),
        failed: run.failed,
        title: format!("{}: {}", times.at(run.end), format_duration(run.took)),
    };
    let mut scale: Vec<ScaleLine> = Vec::new();
    for seconds in scale_seconds(longest / MICROS_PER_SEC, is_logarithmic) {
        let line = ScaleLine {
            y: height(seconds * MICROS_PER_SEC),
            label: format_duration(seconds * MICROS_PER_SEC),
        };
        let is_distinct = scale
            .last()
            .is_none_or(|lower| lower.y - line.y >= MIN_LINE_DISTANCE);
        if is_distinct {
            scale.push(line);
        }
    }
    Some(DurationPlot {
        marks: (0..).zip(runs).map(mark).collect(),
        scale,
        span: [first.end, last.end].map(|end| times.at(end)),
        p95_y: height(p95),
        median_y: height(median),
        median: format_duration(median),
        p95: format_duration(p95),
        longest: format_duration(longest),
        is_logarithmic,
    })
}

/// Durations at the lines of the scale, in seconds, for runs of at most `longest` seconds.
fn scale_seconds(longest: i64, is_logarithmic: bool) -> Vec<i64> {
    if is_logarithmic {
        let fits = |seconds: &i64| *seconds <= longest;
        return LOG_SCALE_SECONDS.into_iter().filter(fits).collect();
    }
    let days = longest.div_euclid(86_400 * MAX_SCALE_LINES) + 1;
    let step = SCALE_SECONDS
        .into_iter()
        .find(|step| longest / step <= MAX_SCALE_LINES)
        .unwrap_or(86_400 * days);
    (1..=longest / step).map(|line| line * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timezone::Timezone;
    use proptest::prelude::*;

    fn plot_durations(runs: &[PlottedRun]) -> Option<DurationPlot> {
        let times = TimeFormatter {
            now: Timestamp::from_secs(0),
            zone: &Timezone::utc(),
        };
        super::plot_durations(runs, &times)
    }

    fn runs(seconds: &[i64]) -> Vec<PlottedRun> {
        let run = |(at, seconds): (i64, &i64)| PlottedRun {
            end: Timestamp::from_secs(at),
            took: seconds * MICROS_PER_SEC,
            failed: seconds % 2 == 1,
        };
        (0..).zip(seconds).map(run).collect()
    }

    #[test]
    fn runs_are_drawn_by_their_length() {
        assert_eq!(plot_durations(&runs(&[])), None);
        assert_eq!(plot_durations(&runs(&[5])), None);
        let three = plot_durations(&runs(&[0, 61, 122])).unwrap();
        let places: Vec<_> = three
            .marks
            .iter()
            .map(|mark| (mark.x, mark.y, mark.failed))
            .collect();
        assert_eq!(
            places,
            [(110, 148, false), (409, 80, true), (708, 12, false)]
        );
        assert_eq!((three.median_y, three.is_logarithmic), (80, false));
        assert_eq!(
            (&*three.median, &*three.p95, &*three.longest),
            ("1 min 1 s", "2 min 2 s", "2 min 2 s")
        );
        let scale: Vec<_> = three
            .scale
            .iter()
            .map(|line| (line.y, line.label.as_str()))
            .collect();
        let expected = [
            (115, "30 seconds"),
            (81, "1 minute"),
            (48, "1 min 30 s"),
            (14, "2 minutes"),
        ];
        assert_eq!(scale, expected);
        assert!(three.marks[1].title.ends_with(": 1 min 1 s"), "{three:?}");
    }

    #[test]
    fn one_run_that_took_much_longer_does_not_flatten_the_others() {
        let mut seconds = vec![2; 20];
        seconds.push(86_400);
        let plot = plot_durations(&runs(&seconds)).unwrap();
        assert!(plot.is_logarithmic);
        assert!(plot.marks[0].y < 100, "{:?}", plot.marks[0]);
        assert_eq!((&*plot.p95, &*plot.longest), ("2 seconds", "1 day"));
    }

    proptest! {
        #[test]
        fn all_marks_lie_within_the_plot(
            seconds in prop::collection::vec(prop_oneof![0_i64..100, 0_i64..300_000], 2..1000),
        ) {
            let plot = plot_durations(&runs(&seconds)).unwrap();
            prop_assert_eq!(plot.marks.len(), seconds.len());
            prop_assert!(plot.scale.len() <= 7);
            prop_assert!(plot.scale.is_sorted_by(|lower, upper| lower.y > upper.y));
            for line in &plot.scale {
                prop_assert!((MARGIN..=SIZE.1 - MARGIN).contains(&line.y), "{line:?}");
            }
            for mark in &plot.marks {
                prop_assert!((0..=SIZE.0).contains(&mark.x) && (0..=SIZE.1).contains(&mark.y));
            }
        }
    }
}
