use super::*;

#[test]
fn five_words_on_one_line_are_cron_and_everything_else_is_oncalendar() {
    for (text, kind) in [
        ("* * * * *", Kind::Cron),
        ("\u{1c}0\t0 1\u{a0}1 mon\u{2029}\n", Kind::Cron),
        ("daily", Kind::OnCalendar),
        ("Mon *-*-* 12:00 Europe/Riga", Kind::OnCalendar),
        ("Mon\n12:00\n*-1\n13:00\n14:00", Kind::OnCalendar),
    ] {
        let schedule = Schedule::parse(text).unwrap();
        assert_eq!((schedule.kind(), schedule.text()), (kind, text));
    }
}
