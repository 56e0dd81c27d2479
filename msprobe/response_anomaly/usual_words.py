"""Words that every longer text has: about a third of a text in each of these languages, hardly any of random tokens.

They are articles, pronouns, prepositions and forms of "to be", chosen by hand from what grammars list; the tests show
that normal texts hold enough of them.
"""

from __future__ import annotations

_BY_LANGUAGE = {
    "English": "the of and to in is that it for as with was on are be this by at from or an not have he she they you "
    "we his her which but had has their will can would one all there if so what when do a i my your its",
    "German": "der die das und ist in den von zu mit sich auf ein eine nicht als auch es an werden aus er sie ich wir",
    "French": "le la les de des et est en un du que qui dans pour par sur au ne pas plus se ce il elle nous vous je",
    "Spanish": "el la los las de y en que un una es por con para del se no su al lo como más pero sus",
    "Italian": "il lo la gli di e che un una è per con non del della in si sono da anche come ma",
    "Portuguese": "o a os as de e que um uma é em para com não do da no na por se mais como mas",
    "Dutch": "de het een en van in is dat op te zijn met voor niet aan er ook als maar om",
    "Swedish, Danish, Norwegian": "och att det som en på är av för med den till og i det er på til af ikke jeg",
    "Polish": "i w na z się nie do że jest to o jak ale po co za od przez",
    "Czech": "a v na se je že to s z do o ale jako které podle",
    "Romanian": "și de la în cu pe un o nu este care din ce pentru",
    "Turkish": "ve bir bu da de için ile olarak daha çok gibi olan ne var",
    "Indonesian": "yang dan di ini itu dengan untuk pada adalah dari tidak dalam akan ke",
    "Finnish": "ja on ei se että oli hän myös tai kun mutta ovat",
    "Hungarian": "a az és hogy nem is egy van ez csak meg de",
    "Vietnamese": "và của là có trong được cho một các không với này những người để khi",
    "Swahili": "na ya wa kwa ni katika za la kama hii",
    "Latin": "et in est non ad ut cum sed qui quae quod si ex de ab",
    "Chinese in Latin letters": "de shi wo ni ta zai le bu you zhe",
}
WORDS = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())

HAN_WORDS = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然"
    "家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日者意无此"
    "這個們來為國說時會對過發後裡經麼學現當沒動還進開從實無與與则則乎焉兮曰何吾春花月山风水"
)
"""Characters of Chinese; the last line has traditional forms and those of classical texts."""
