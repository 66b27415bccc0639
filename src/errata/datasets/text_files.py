"""The files of AG News and CLINC150."""

import json
from pathlib import Path

from errata.datasets.column_tables import LABEL, TEXT, parse_columns
from errata.datasets.spec import ParsedArrays
from errata.datasets.table_datasets import check_rows
from errata.errors import DataError
from errata.readers.file_access import file_errors

AG_NEWS_CLASSES = ("1", "2", "3", "4")  # world, sports, business, science and technology
AG_NEWS_ROWS = 7600
INTENT_NAMES = """
accept_reservations account_blocked alarm application_status apr are_you_a_bot balance bill_balance bill_due
book_flight book_hotel calculator calendar calendar_update calories cancel cancel_reservation car_rental
card_declined carry_on change_accent change_ai_name change_language change_speed change_user_name change_volume
confirm_reservation cook_time credit_limit credit_limit_change credit_score current_location damaged_card date
definition direct_deposit directions distance do_you_have_pets exchange_rate expiration_date find_phone
flight_status flip_coin food_last freeze_account fun_fact gas gas_type goodbye greeting how_busy how_old_are_you
improve_credit_score income ingredient_substitution ingredients_list insurance insurance_change interest_rate
international_fees international_visa jump_start last_maintenance lost_luggage make_call maybe meal_suggestion
meaning_of_life measurement_conversion meeting_schedule min_payment mpg new_card next_holiday next_song no
nutrition_info oil_change_how oil_change_when order order_checks order_status pay_bill payday pin_change
play_music plug_type pto_balance pto_request pto_request_status pto_used recipe redeem_rewards reminder
reminder_update repeat replacement_card_duration report_fraud report_lost_card reset_settings
restaurant_reservation restaurant_reviews restaurant_suggestion rewards_balance roll_dice rollover_401k routing
schedule_maintenance schedule_meeting share_location shopping_list shopping_list_update smart_home spelling
spending_history sync_device taxes tell_joke text thank_you time timer timezone tire_change tire_pressure
todo_list todo_list_update traffic transactions transfer translate travel_alert travel_notification
travel_suggestion uber update_playlist user_name vaccines w2 weather what_are_your_hobbies what_can_i_ask_you
what_is_your_name what_song where_are_you_from whisper_mode who_do_you_work_for who_made_you yes
"""
INTENTS = tuple(INTENT_NAMES.split())
CLINC_PARTS = {"train": 15_000, "val": 3000, "test": 4500}  # questions outside of the 150 intents are not used


def read_ag_news(path: Path) -> ParsedArrays:
    """Read lines of class number, title and description; title and description are one text."""
    import pandas as pd

    with file_errors(path):
        cells = pd.read_csv(path, header=None, dtype=str, na_filter=False)
    if cells.shape[1] != 3:
        raise DataError(f"{path} has {cells.shape[1]} columns, not 3")
    check_rows(path, len(cells), AG_NEWS_ROWS)
    frame = pd.DataFrame({TEXT: cells[1] + " " + cells[2], LABEL: cells[0]})
    return parse_columns(frame, AG_NEWS_CLASSES, path)


def read_clinc(path: Path) -> ParsedArrays:
    """Read the questions of all three parts, each a pair of text and intent."""
    import pandas as pd

    with file_errors(path):
        content = json.loads(path.read_text(encoding="utf-8"))
    rows: list[list[str]] = []
    for part, expected in CLINC_PARTS.items():
        pairs = content.get(part) if isinstance(content, dict) else None
        if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise DataError(f"{path} has no list of pairs under {part!r}")
        check_rows(f"{path}: {part}", len(pairs), expected)
        rows += pairs
    return parse_columns(pd.DataFrame(rows, columns=[TEXT, LABEL], dtype=object), INTENTS, path)
