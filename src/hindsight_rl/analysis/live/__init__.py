"""The live page: runs and studies as plain numbers, and the files of the page that draws them."""
