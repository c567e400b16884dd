function comparisonPage() {}
