//! Panels side by side with logarithmic axes, as SVG that is readable on light and on dark pages.

use std::fmt::Write as _;

/// Size of the area between the axes of a panel, and its margins.
const SIDE: f64 = 200.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 40.0;
const PANEL: f64 = LEFT + SIDE + 24.0;
const HEIGHT: f64 = TOP + SIDE + 52.0;

const TITLE: &str = "Memory, disk and start-up over the number of checks";
const STYLE: &str = "text{font:12px \
                     sans-serif;fill:#24292f}.title{font-weight:600}.axis{stroke:#d0d7de}.\
                     line{stroke:#0969da;fill:none;stroke-width:2}circle{fill:#0969da}@\
                     media(prefers-color-scheme:dark){text{fill:#e6edf3}.axis{stroke:#3d444d}.\
                     line{stroke:#58a6ff}circle{fill:#58a6ff}}";

/// One figure over the number of checks.
pub(super) struct Panel {
    title: &'static str,
    /// Number of checks, and the figure.
    pub(super) points: Vec<(f64, f64)>,
}

impl Panel {
    pub(super) fn new(title: &'static str) -> Self {
        Self {
            title,
            points: Vec::new(),
        }
    }
}

/// Returns the exponents of the powers of ten that enclose all values.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (i32, i32) {
    let low = values.clone().fold(f64::MAX, f64::min).log10().floor() as i32;
    let high = values.fold(f64::MIN_POSITIVE, f64::max).log10().ceil() as i32;
    (low, high.max(low + 1))
}

/// Returns the position of a value on an axis, from 0 to 1.
fn axis_position(value: f64, (low, high): (i32, i32)) -> f64 {
    (value.log10() - f64::from(low)) / f64::from(high - low)
}

/// Formats 1000000 as 1M.
fn short_number(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", value / 1e6),
        1e3.. => format!("{}k", value / 1e3),
        _ => format!("{value}"),
    }
}

/// Draws the whole picture.
pub(super) fn draw(panels: &[Panel]) -> String {
    let width = PANEL * panels.len() as f64;
    let mut svg = format!(
        concat!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img">"#,
            r#"<title>{}</title><style>{}</style>"#
        ),
        width, HEIGHT, TITLE, STYLE
    );
    for (nth, panel) in panels.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            r#"<g transform="translate({},{TOP})">"#,
            PANEL * nth as f64 + LEFT
        );
        draw_panel(&mut svg, panel);
        svg.push_str("</g>");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &Panel) {
    let across = decades(panel.points.iter().map(|point| point.0));
    let up = decades(panel.points.iter().map(|point| point.1));
    let mut put = |text: std::fmt::Arguments<'_>| {
        let _ = svg.write_fmt(text);
    };
    put(format_args!(
        r#"<text class="title" x="0" y="-18">{}</text>"#,
        panel.title
    ));
    for exponent in across.0..=across.1 {
        let x = SIDE * axis_position(10f64.powi(exponent), across);
        let label = short_number(10f64.powi(exponent));
        put(format_args!(
            concat!(
                r#"<path class="axis" d="M{0:.1} 0V{1}"/>"#,
                r#"<text x="{0:.1}" y="{2}" text-anchor="middle">{3}</text>"#
            ),
            x,
            SIDE,
            SIDE + 18.0,
            label
        ));
    }
    for exponent in up.0..=up.1 {
        let y = SIDE - SIDE * axis_position(10f64.powi(exponent), up);
        let label = short_number(10f64.powi(exponent));
        put(format_args!(
            concat!(
                r#"<path class="axis" d="M0 {:.1}H{}"/>"#,
                r#"<text x="-8" y="{:.1}" text-anchor="end">{}</text>"#
            ),
            y,
            SIDE,
            y + 4.0,
            label
        ));
    }
    put(format_args!(
        r#"<text x="{}" y="{}" text-anchor="middle">checks</text>"#,
        SIDE / 2.0,
        SIDE + 38.0
    ));
    let at = |point: &(f64, f64)| {
        (
            SIDE * axis_position(point.0, across),
            SIDE - SIDE * axis_position(point.1, up),
        )
    };
    let corners: Vec<_> = panel
        .points
        .iter()
        .map(at)
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    put(format_args!(
        r#"<polyline class="line" points="{}"/>"#,
        corners.join(" ")
    ));
    for point in &panel.points {
        let (x, y) = at(point);
        // There is space left of a rising line; the first label would leave the panel.
        let anchor = if x > SIDE / 4.0 { "end" } else { "start" };
        let value = if point.1 < 10.0 {
            format!("{:.1}", point.1)
        } else {
            format!("{:.0}", point.1)
        };
        put(format_args!(
            concat!(
                r#"<circle cx="{0:.1}" cy="{1:.1}" r="3"/>"#,
                r#"<text x="{0:.1}" y="{2:.1}" text-anchor="{3}">{4}</text>"#
            ),
            x,
            y,
            y - 8.0,
            anchor,
            value
        ));
    }
}
