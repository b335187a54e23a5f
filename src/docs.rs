//! The chapters of the documentation, so that every rule is written down once, for users and for the code that keeps it.
//!
//! Each chapter is a Markdown file in `src/docs` and a module here. Code comments link to it as `[limits](crate::docs::limits)`.

/// A chapter as the program carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chapter {
    /// Its name in URLs and links: lower case letters. Its file is `src/docs/<slug>.md`.
    pub slug: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The whole of it, in Markdown. Links to other chapters have the form `<slug>.md`.
    pub text: &'static str,
}

/// Makes the table of all chapters, and a module of each.
///
/// Chapters link to each other by reference. The references given here come before those in the file, so they count in the crate's
/// documentation; wherever the file itself is read, its own count.
macro_rules! chapters {
    ([$($slug:ident $title:literal)*] $all:tt) => {
        /// Every chapter, in the order in which to read them.
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
    protocol "The protocol"
    clients "Clients"
    operations "Operations"
    alerts "Alerts"
    dashboard "The dashboard"
    moving "Moving"
    limits "Limits"
    promises "Promises"
    performance "Performance"
    design "Design"
    extending "Extending"
]);
