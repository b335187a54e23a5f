//! Time zone names that a check may not keep.

/// Names that the database has but a check may not: one for "not configured", one that Healthchecks
/// does not know.
pub(super) const REJECTED_NAMES: [&str; 2] = ["America/Coyhaique", "Factory"];

/// Old names and their replacements, sorted by old name. An old name is stored and shown as the new
/// one.
#[rustfmt::skip]
pub(super) const REPLACED_NAMES: [(&str, &str); 113] = [
    ("Africa/Asmera", "Africa/Nairobi"), ("America/Argentina/ComodRivadavia", "America/Argentina/Catamarca"),
    ("America/Buenos_Aires", "America/Argentina/Buenos_Aires"), ("America/Catamarca", "America/Argentina/Catamarca"),
    ("America/Cordoba", "America/Argentina/Cordoba"), ("America/Fort_Wayne", "America/Indiana/Indianapolis"),
    ("America/Godthab", "America/Nuuk"), ("America/Indianapolis", "America/Indiana/Indianapolis"),
    ("America/Jujuy", "America/Argentina/Jujuy"), ("America/Knox_IN", "America/Indiana/Knox"),
    ("America/Louisville", "America/Kentucky/Louisville"), ("America/Mendoza", "America/Argentina/Mendoza"),
    ("America/Rosario", "America/Argentina/Cordoba"), ("Antarctica/South_Pole", "Pacific/Auckland"), ("Asia/Ashkhabad", "Asia/Ashgabat"),
    ("Asia/Calcutta", "Asia/Kolkata"), ("Asia/Choibalsan", "Asia/Ulaanbaatar"), ("Asia/Chungking", "Asia/Shanghai"),
    ("Asia/Dacca", "Asia/Dhaka"), ("Asia/Katmandu", "Asia/Kathmandu"), ("Asia/Macao", "Asia/Macau"), ("Asia/Rangoon", "Asia/Yangon"),
    ("Asia/Saigon", "Asia/Ho_Chi_Minh"), ("Asia/Thimbu", "Asia/Thimphu"), ("Asia/Ujung_Pandang", "Asia/Makassar"),
    ("Asia/Ulan_Bator", "Asia/Ulaanbaatar"), ("Atlantic/Faeroe", "Atlantic/Faroe"), ("Australia/ACT", "Australia/Sydney"),
    ("Australia/LHI", "Australia/Lord_Howe"), ("Australia/NSW", "Australia/Sydney"), ("Australia/North", "Australia/Darwin"),
    ("Australia/Queensland", "Australia/Brisbane"), ("Australia/South", "Australia/Adelaide"), ("Australia/Tasmania", "Australia/Hobart"),
    ("Australia/Victoria", "Australia/Melbourne"), ("Australia/West", "Australia/Perth"), ("Brazil/Acre", "America/Rio_Branco"),
    ("Brazil/DeNoronha", "America/Noronha"), ("Brazil/East", "America/Sao_Paulo"), ("Brazil/West", "America/Manaus"),
    ("CET", "Europe/Brussels"), ("CST6CDT", "America/Chicago"), ("Canada/Atlantic", "America/Halifax"),
    ("Canada/Central", "America/Winnipeg"), ("Canada/Eastern", "America/Toronto"), ("Canada/Mountain", "America/Edmonton"),
    ("Canada/Newfoundland", "America/St_Johns"), ("Canada/Pacific", "America/Vancouver"), ("Canada/Saskatchewan", "America/Regina"),
    ("Canada/Yukon", "America/Whitehorse"), ("Chile/Continental", "America/Santiago"), ("Chile/EasterIsland", "Pacific/Easter"),
    ("Cuba", "America/Havana"), ("EET", "Europe/Athens"), ("EST", "America/Panama"), ("EST5EDT", "America/New_York"),
    ("Egypt", "Africa/Cairo"), ("Eire", "Europe/Dublin"), ("Europe/Kiev", "Europe/Kyiv"), ("Europe/Uzhgorod", "Europe/Kyiv"),
    ("Europe/Zaporozhye", "Europe/Kyiv"), ("GB", "Europe/London"), ("GB-Eire", "Europe/London"), ("GMT+0", "Etc/GMT"), ("GMT-0", "Etc/GMT"),
    ("GMT0", "Etc/GMT"), ("Greenwich", "Etc/GMT"), ("HST", "Pacific/Honolulu"), ("Hongkong", "Asia/Hong_Kong"),
    ("Iceland", "Africa/Abidjan"), ("Iran", "Asia/Tehran"), ("Israel", "Asia/Jerusalem"), ("Jamaica", "America/Jamaica"),
    ("Japan", "Asia/Tokyo"), ("Kwajalein", "Pacific/Kwajalein"), ("Libya", "Africa/Tripoli"), ("MET", "Europe/Brussels"),
    ("MST", "America/Phoenix"), ("MST7MDT", "America/Denver"), ("Mexico/BajaNorte", "America/Tijuana"),
    ("Mexico/BajaSur", "America/Mazatlan"), ("Mexico/General", "America/Mexico_City"), ("NZ", "Pacific/Auckland"),
    ("NZ-CHAT", "Pacific/Chatham"), ("Navajo", "America/Denver"), ("PRC", "Asia/Shanghai"), ("PST8PDT", "America/Los_Angeles"),
    ("Pacific/Enderbury", "Pacific/Kanton"), ("Pacific/Ponape", "Pacific/Guadalcanal"), ("Pacific/Truk", "Pacific/Port_Moresby"),
    ("Poland", "Europe/Warsaw"), ("Portugal", "Europe/Lisbon"), ("ROC", "Asia/Taipei"), ("ROK", "Asia/Seoul"),
    ("Singapore", "Asia/Singapore"), ("Turkey", "Europe/Istanbul"), ("UCT", "Etc/UTC"), ("US/Alaska", "America/Anchorage"),
    ("US/Aleutian", "America/Adak"), ("US/Arizona", "America/Phoenix"), ("US/Central", "America/Chicago"),
    ("US/East-Indiana", "America/Indiana/Indianapolis"), ("US/Eastern", "America/New_York"), ("US/Hawaii", "Pacific/Honolulu"),
    ("US/Indiana-Starke", "America/Indiana/Knox"), ("US/Michigan", "America/Detroit"), ("US/Mountain", "America/Denver"),
    ("US/Pacific", "America/Los_Angeles"), ("US/Samoa", "Pacific/Pago_Pago"), ("Universal", "Etc/UTC"), ("W-SU", "Europe/Moscow"),
    ("WET", "Europe/Lisbon"), ("Zulu", "Etc/UTC"),
];
