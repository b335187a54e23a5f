//! Chapters of the documentation. Every rule is written down once, for users and for the code that
//! implements it.
//!
//! Each chapter is a Markdown file in `src/docs` and a module here. Code comments link to it as
//! `[limits](crate::docs::limits)`.

/// A chapter, embedded in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chapter {
    /// Name in URLs and links, in lower case letters. The file is `src/docs/<slug>.md`.
    pub slug: &'static str,
    /// Heading of the chapter.
    pub title: &'static str,
    /// Whole text in Markdown. Links to other chapters have the form `<slug>.md`.
    pub text: &'static str,
}

/// Declares the table of all chapters, and a module for each.
///
/// Chapters link to each other by reference. The references given here come before those in the
/// file and apply in the documentation of the crate. Everywhere else the references of the file
/// apply.
macro_rules! chapters {
    ([$($slug:ident $title:literal)*] $all:tt) => {
        /// Every chapter, in reading order.
        pub const CHAPTERS: &[Chapter] = &[$(Chapter {
            slug: stringify!($slug),
            title: $title,
            text: include_str!(concat!("docs/", stringify!($slug), ".md")),
        }),*];

        $(chapters!(module $slug $all);)*
    };
    (module $slug:ident [$($other:ident $title:literal)*]) => {
        #[doc = concat!($("[", stringify!($other), "]: crate::docs::", stringify!($other), "\n"),*)]
        #[doc = ""]
        #[doc = include_str!(concat!("docs/", stringify!($slug), ".md"))]
        pub mod $slug {}
    };
    ($all:tt) => {
        chapters!($all $all);
    };
}

chapters!([
    install "Install"
    protocol "The protocol"
    clients "Clients"
    operations "Operations"
    cluster "Clusters"
    alerts "Alerts"
    dashboard "The dashboard"
    moving "Moving"
    limits "Limits"
    promises "Promises"
    performance "Performance"
    design "Design"
    extending "Extending"
    dependencies "Dependencies"
]);
