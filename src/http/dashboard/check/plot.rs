//! Durations of runs as marks in a plot of fixed size, which the page draws.

use crate::domain::formatting::format_duration;
use crate::domain::timestamp::Timestamp;

/// Width and height of the plot.
pub(crate) const SIZE: (i64, i64) = (720, 160);
/// Free space around the marks.
const MARGIN: i64 = 12;
/// Ratio of the longest run to the median above which the scale is logarithmic.
const LOG_SCALE_RATIO: i64 = 50;

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
}

/// The plot and its captions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DurationPlot {
    /// One mark for each run, oldest first, from left to right.
    pub(crate) marks: Vec<PlotMark>,
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
pub(crate) fn plot_durations(runs: &[PlottedRun]) -> Option<DurationPlot> {
    if runs.len() < 2 {
        return None;
    }
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
        x: MARGIN + at * (SIZE.0 - 2 * MARGIN) / steps,
        y: height(run.took),
        failed: run.failed,
    };
    Some(DurationPlot {
        marks: (0..).zip(runs).map(mark).collect(),
        median_y: height(median),
        median: format_duration(median),
        p95: format_duration(p95),
        longest: format_duration(longest),
        is_logarithmic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::timestamp::MICROS_PER_SEC;
    use proptest::prelude::*;

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
            [(12, 148, false), (360, 80, true), (708, 12, false)]
        );
        assert_eq!((three.median_y, three.is_logarithmic), (80, false));
        assert_eq!(
            (&*three.median, &*three.p95, &*three.longest),
            ("1 min 1 s", "2 min 2 s", "2 min 2 s")
        );
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
            for mark in &plot.marks {
                prop_assert!((0..=SIZE.0).contains(&mark.x) && (0..=SIZE.1).contains(&mark.y));
            }
        }
    }
}
