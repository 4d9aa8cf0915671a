//! The content of a picture, independent of resolution.

/// A picture: one pair of axes and what is drawn between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// First line above the picture.
    pub title: String,
    /// Second line above the picture, smaller.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, the last on top.
    pub series: Vec<Series>,
    /// Ranges of the horizontal axis that are shaded, from and to.
    pub shaded: Vec<(f64, f64)>,
}

impl Chart {
    /// Of these series, without shades.
    pub fn new(
        title: impl Into<String>,
        subtitle: impl Into<String>,
        x: Axis,
        y: Axis,
        series: impl IntoIterator<Item = Series>,
    ) -> Self {
        let series = series.into_iter().collect();
        Self { title: title.into(), subtitle: subtitle.into(), x, y, series, shaded: Vec::new() }
    }
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it measures.
    pub name: String,
    /// How values map to distances.
    pub scale: Scale,
    /// How values are written.
    pub unit: Unit,
    /// Lower limit, if not the smallest value.
    pub from: Option<f64>,
    /// Upper limit, if not the largest value.
    pub to: Option<f64>,
}

impl Axis {
    /// An axis that spans its values.
    pub fn new(name: impl Into<String>, scale: Scale, unit: Unit) -> Self {
        Self { name: name.into(), scale, unit, from: None, to: None }
    }

    /// The same with a lower limit.
    pub fn starting(self, from: f64) -> Self {
        Self { from: Some(from), ..self }
    }

    /// The same with an upper limit.
    pub fn ending(self, to: f64) -> Self {
        Self { to: Some(to), ..self }
    }
}

/// How values of an axis map to distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal distances.
    Linear,
    /// Equal ratios are equal distances.
    Log,
    /// Names side by side; the value is the index.
    Names(Vec<String>),
}

/// How values of an axis are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Number,
    /// A fraction, as per cent.
    Share,
    /// A time in seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A rate in bits per second.
    BitsPerSecond,
}

/// A row of points in one style.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name beside the line or in the legend; a line without a name has no label.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// How it is drawn.
    pub shape: Shape,
    /// Its points.
    pub points: Vec<Point>,
}

impl Series {
    /// Of these points.
    pub fn new(
        name: impl Into<String>,
        colour: Colour,
        shape: Shape,
        points: impl IntoIterator<Item = Point>,
    ) -> Self {
        Self { name: name.into(), colour, shape, points: points.into_iter().collect() }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A line with a mark at each point.
    Marked,
    /// A thin line with a mark at each point, larger than the one before.
    Growing,
    /// A small mark at each point.
    Dots,
    /// A line.
    Line,
    /// A dashed line, for computed values.
    Dashed,
    /// A line that holds each value until the next.
    Steps,
    /// Bars beside those of the other series.
    Bars,
    /// Bars on top of those of the series before.
    Stack,
    /// Outlines of bars beside those of the other series, for published values.
    Frames,
}

/// A point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// Half the height of its error bar.
    pub error: Option<f64>,
}

impl Point {
    /// A point without an error bar.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, error: None }
    }
}

/// A colour. The first eight are the palette of Okabe and Ito, which all kinds of colour vision can distinguish; the
/// other four are of Paul Tol's "muted" scheme, for charts of more series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// rc3.
    Blue,
    /// The plain scheme.
    Vermillion,
    /// A third.
    Green,
    /// A fourth.
    Orange,
    /// A fifth.
    Purple,
    /// A sixth.
    Sky,
    /// Not a scheme.
    Grey,
    /// An eighth.
    Black,
    /// A ninth.
    Wine,
    /// A tenth.
    Olive,
    /// An eleventh.
    Indigo,
    /// A twelfth.
    Sand,
}

/// All colours, in the order in which charts use them.
const PALETTE: [(Colour, (u8, u8, u8)); 12] = [
    (Colour::Blue, (0, 114, 178)),
    (Colour::Vermillion, (213, 94, 0)),
    (Colour::Green, (0, 158, 115)),
    (Colour::Orange, (230, 159, 0)),
    (Colour::Purple, (204, 121, 167)),
    (Colour::Sky, (86, 180, 233)),
    (Colour::Grey, (110, 110, 110)),
    (Colour::Black, (0, 0, 0)),
    (Colour::Wine, (136, 34, 85)),
    (Colour::Olive, (153, 153, 51)),
    (Colour::Indigo, (51, 34, 136)),
    (Colour::Sand, (221, 204, 119)),
];

impl Colour {
    /// The colour of the `index`-th of many: different ones for up to twelve.
    pub fn nth(index: usize) -> Self {
        PALETTE[index % PALETTE.len()].0
    }

    /// Red, green, blue.
    pub fn rgb(self) -> (u8, u8, u8) {
        PALETTE[self as usize].1
    }
}
